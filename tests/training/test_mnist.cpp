// Finding the four files under all their names, and what is said where that fails.
#include <cstdlib>

#include <doctest/doctest.h>

#include "data_files.h"
#include <sinter/training/loader.h>
#include <sinter/training/mnist.h>

namespace sinter {
namespace {

using namespace testing;
using std::filesystem::path;

Bytes images_file(std::uint32_t n, std::uint32_t rows = 2, std::uint32_t columns = 3) {
  return joined(idx_header({n, rows, columns}), Bytes(std::size_t{n} * rows * columns, 51));
}

Bytes labels_file(std::uint32_t n) {
  Bytes labels(n);
  for (std::size_t i = 0; i < n; ++i) {
    labels[i] = static_cast<std::uint8_t>(i % 10);
  }
  return joined(idx_header({n}), labels);
}

// The four files with names such as train-images<joint>idx3-ubyte<suffix>.
void write_four(const path& folder, const std::string& joint = "-", const std::string& suffix = "",
                bool packed = false) {
  std::filesystem::create_directories(folder);
  const auto put = [&](const std::string& stem, const std::string& ending, const Bytes& bytes) {
    write_file(folder / (stem + joint + ending + suffix), packed ? gzip(bytes) : bytes);
  };
  put("train-images", "idx3-ubyte", images_file(5));
  put("train-labels", "idx1-ubyte", labels_file(5));
  put("t10k-images", "idx3-ubyte", images_file(4));
  put("t10k-labels", "idx1-ubyte", labels_file(4));
}

// Sets SINTER_DATA (nullptr: unsets it) while it lives.
class DataVariable {
 public:
  explicit DataVariable(const char* value) {
    if (const char* old = std::getenv("SINTER_DATA")) {
      old_ = old;
      was_set_ = true;
    }
    put(value);
  }
  ~DataVariable() { put(was_set_ ? old_.c_str() : nullptr); }
  DataVariable(const DataVariable&) = delete;
  DataVariable& operator=(const DataVariable&) = delete;

 private:
  static void put(const char* value) {
    value == nullptr ? unsetenv("SINTER_DATA") : setenv("SINTER_DATA", value, 1);
  }
  std::string old_;
  bool was_set_ = false;
};

class CurrentFolder {
 public:
  explicit CurrentFolder(const path& folder) : old_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~CurrentFolder() {
    std::error_code ignored;
    std::filesystem::current_path(old_, ignored);
  }
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  path old_;
};

TEST_CASE("both spellings load, plain or gzip, whatever the name says of it") {
  for (const char* joint : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      for (const bool packed : {false, true}) {
        CAPTURE(joint);
        CAPTURE(suffix);
        CAPTURE(packed);
        const TempFolder folder;
        write_four(folder.path(), joint, suffix, packed);
        const auto data = datasets::mnist(folder.path());
        CHECK(data.train.size() == 5);
        CHECK(data.test.size() == 4);
        CHECK(data.train.images().shape() == Shape{5, 1, 2, 3});
        CHECK(data.folder == folder.path());
        CHECK(data.name == folder.path().filename());
      }
    }
  }
}

TEST_CASE("a folder that is named like a file is not taken for it") {
  const TempFolder folder;
  write_four(folder.path(), ".");
  std::filesystem::create_directory(folder / "train-images-idx3-ubyte");
  CHECK(datasets::mnist(folder.path()).train.size() == 5);
}

TEST_CASE("images are divided by 255, or as the options say") {
  const TempFolder folder;
  write_four(folder.path());
  const auto plain = datasets::mnist(folder.path());
  CHECK(plain.train.get(0).inputs.to_vector<float>()[0] == doctest::Approx(0.2));
  const auto scaled = datasets::mnist(folder.path(), {.images = {.mean = 0.1, .std = 0.5}});
  CHECK(scaled.test.get(0).inputs.to_vector<float>()[0] == doctest::Approx(0.2));
  CHECK(scaled.test.options().mean == 0.1);
  CHECK(plain.train.get(3).targets.item() == 3);
}

TEST_CASE("a folder that is not there, is no folder, or lacks files") {
  const TempFolder folder;
  const std::string missing = error_of([&] { datasets::mnist(folder / "nothing"); });
  CHECK(has(missing, "the folder " + (folder / "nothing").string() + " does not exist"));
  for (const char* name :
       {"train-images-idx3-ubyte (or train-images.idx3-ubyte)", "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte (or t10k-labels.idx1-ubyte)", ".gz"}) {
    CHECK(has(missing, name));
  }
  const std::string file = error_of([&] { datasets::mnist(write_file(folder / "file", {1})); });
  CHECK(has(file, (folder / "file").string() + " is not a folder"));

  write_four(folder.path());
  std::filesystem::remove(folder / "t10k-labels-idx1-ubyte");
  const std::string part = error_of([&] { datasets::mnist(folder.path()); });
  CHECK(has(part, folder.path().string() + " lacks files; looked for t10k-labels-idx1-ubyte"));
  CHECK_FALSE(has(part, "train-images"));

  const CurrentFolder here(folder.path());
  CHECK(has(error_of([] { datasets::mnist("somewhere"); }), (folder / "somewhere").string()));
}

TEST_CASE("without a folder: SINTER_DATA, data/mnist, the caller's hints") {
  const TempFolder folder;
  const CurrentFolder here(folder.path());
  {
    const DataVariable unset(nullptr);
    write_four(folder / "hint");
    // A machine may have Debian's package or not; a hint comes before it.
    const auto hinted = datasets::mnist({}, {.also_look_in = {folder / "no", folder / "hint"}});
    CHECK(hinted.folder == folder / "hint");
    write_four(folder / "data/mnist");
    CHECK(datasets::mnist({}, {.also_look_in = {folder / "hint"}}).folder == folder / "data/mnist");
    CHECK(datasets::mnist().folder == folder / "data/mnist");

    std::filesystem::remove(folder / "data/mnist/train-labels-idx1-ubyte");
    const std::string part = error_of([] { datasets::mnist(); });
    CHECK(has(part, (folder / "data/mnist").string() + " lacks files"));
  }
  {
    const DataVariable set((folder / "hint").c_str());
    CHECK(datasets::mnist().folder == folder / "hint");
  }
  {
    const DataVariable wrong((folder / "typo").c_str());
    const std::string message = error_of([] { datasets::mnist(); });
    CHECK(has(message, (folder / "typo").string() + " (named by SINTER_DATA) does not exist"));
    CHECK(datasets::mnist(folder / "hint").train.size() == 5);
  }
}

TEST_CASE("files that do not belong together") {
  const TempFolder folder;
  write_four(folder.path());
  write_file(folder / "train-labels-idx1-ubyte", labels_file(6));
  const std::string counts = error_of([&] { datasets::mnist(folder.path()); });
  CHECK(has(counts, (folder / "train-images-idx3-ubyte").string() + " has 5 images but " +
                        (folder / "train-labels-idx1-ubyte").string() + " has 6 labels"));

  write_file(folder / "train-labels-idx1-ubyte", images_file(5));
  CHECK(has(error_of([&] { datasets::mnist(folder.path()); }),
            (folder / "train-labels-idx1-ubyte").string() + " has 3 dimensions, expected 1"));

  write_four(folder.path());
  write_file(folder / "t10k-images-idx3-ubyte", images_file(4, 3, 2));
  const std::string sizes = error_of([&] { datasets::mnist(folder.path()); });
  CHECK(has(sizes, "are [2, 3] but those of " + (folder / "t10k-images-idx3-ubyte").string() +
                       " are [3, 2]"));
}

TEST_CASE("MNIST is told by its first labels") {
  const TempFolder folder;
  write_four(folder.path());
  Bytes labels(60000, 0);
  const Bytes start{5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
  std::copy(start.begin(), start.end(), labels.begin());
  write_file(folder / "train-images-idx3-ubyte", images_file(60000));
  write_file(folder / "train-labels-idx1-ubyte", joined(idx_header({60000}), labels));
  CHECK(datasets::mnist(folder.path()).name == "MNIST");
}

TEST_CASE("Fashion-MNIST as Debian installs it") {
  const path debian = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(debian)) {
    MESSAGE("the package dataset-fashion-mnist is not installed: not tested");
    return;
  }
  const TempFolder empty;
  const CurrentFolder here(empty.path());
  const DataVariable unset(nullptr);
  const auto data = datasets::mnist();
  CHECK(data.name == "Fashion-MNIST");
  CHECK(data.folder == debian);
  CHECK(data.train.images().shape() == Shape{60000, 1, 28, 28});
  CHECK(data.test.images().shape() == Shape{10000, 1, 28, 28});
  // The mean of all training bytes, over 255, as published for this data set: 0.2860.
  double sum = 0;
  for (const std::uint8_t byte : data.train.images().values<std::uint8_t>()) {
    sum += byte;
  }
  CHECK(sum / 255 / static_cast<double>(data.train.images().numel()) ==
        doctest::Approx(0.2860).epsilon(5e-4));
  std::vector<int> classes(10);
  DataLoader loader(data.test, {.batch_size = 128});
  for (auto [images, labels] : loader) {
    CHECK(images.size(0) == labels.size(0));
    for (const std::int64_t label : labels.to_vector<std::int64_t>()) {
      ++classes.at(static_cast<std::size_t>(label));
    }
  }
  CHECK(classes == std::vector<int>(10, 1000));
}

}  // namespace
}  // namespace sinter
