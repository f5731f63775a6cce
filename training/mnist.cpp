#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <sinter/runtime/paths.h>
#include <sinter/training/idx.h>
#include <sinter/training/mnist.h>

namespace sinter::datasets {
namespace {

using Path = std::filesystem::path;

constexpr const char* debian_fashion_mnist = "/usr/share/datasets/fashion-mnist";

struct Role {
  const char* stem;    // "train-images"
  const char* ending;  // "idx3-ubyte"
};
constexpr std::array<Role, 4> roles{{{"train-images", "idx3-ubyte"},
                                     {"train-labels", "idx1-ubyte"},
                                     {"t10k-images", "idx3-ubyte"},
                                     {"t10k-labels", "idx1-ubyte"}}};

// One for each role; empty where there is none.
using Files = std::array<Path, roles.size()>;

// Only files: some archives unpack to a folder train-images-idx3-ubyte with the file inside.
Path find_file(const Path& folder, const Role& role) {
  for (const char* joint : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      const Path file = folder / text(role.stem, joint, role.ending, suffix);
      std::error_code ignored;
      if (std::filesystem::is_regular_file(file, ignored)) {
        return file;
      }
    }
  }
  return {};
}

Files find_files(const Path& folder) {
  Files files;
  std::ranges::transform(roles, files.begin(),
                         [&](const Role& role) { return find_file(folder, role); });
  return files;
}

// "a-idx3-ubyte (or a.idx3-ubyte), ..." of the roles for which `files` has none.
std::string missing_names(const Files& files) {
  std::string out;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (files[i].empty()) {
      out += text(out.empty() ? "" : ", ", roles[i].stem, "-", roles[i].ending, " (or ",
                  roles[i].stem, ".", roles[i].ending, ")");
    }
  }
  return out;
}

bool complete(const Files& files) {
  return std::ranges::none_of(files, [](const Path& file) { return file.empty(); });
}

[[noreturn]] void throw_missing(const Path& folder, const Files& files, const char* origin) {
  std::error_code ignored;
  const char* state = std::filesystem::is_directory(folder, ignored) ? " lacks files"
                      : std::filesystem::exists(folder, ignored)     ? " is not a folder"
                                                                     : " does not exist";
  throw Error(text("datasets::mnist: the folder ", folder.string(), origin, state, "; looked for ",
                   missing_names(files), ", each plain or with .gz"));
}

// The folder to read from and its files.
std::pair<Path, Files> find(const Path& named, const MnistOptions& options) {
  const char* variable = std::getenv("SINTER_DATA");
  const bool from_variable = named.empty() && variable != nullptr && *variable != '\0';
  if (!named.empty() || from_variable) {
    const Path folder = full_path(from_variable ? Path(variable) : named);
    const Files files = find_files(folder);
    if (!complete(files)) {
      throw_missing(folder, files, from_variable ? " (named by SINTER_DATA)" : "");
    }
    return {folder, files};
  }
  std::vector<Path> folders{Path("data") / "mnist"};
  folders.insert(folders.end(), options.also_look_in.begin(), options.also_look_in.end());
  folders.emplace_back(debian_fashion_mnist);
  std::string tried;
  for (const Path& candidate : folders) {
    const Path folder = full_path(candidate);
    const Files files = find_files(folder);
    if (complete(files)) {
      return {folder, files};
    }
    // A part of a data set is a mistake to report, not a reason to train on another one.
    if (missing_names(files) != missing_names({})) {
      throw_missing(folder, files, "");
    }
    tried += (tried.empty() ? "" : ", ") + folder.string();
  }
  throw Error(text("datasets::mnist: found no data in ", tried, "; looked for ", missing_names({}),
                   ", each plain or with .gz; name their folder in the call or in SINTER_DATA"));
}

InMemoryDataset read_pair(const Path& images_file, const Path& labels_file,
                          const InMemoryOptions& options) {
  const Tensor images = read_idx(images_file, 3);
  const Tensor labels = read_idx(labels_file, 1);
  check(images.size(0) == labels.size(0), "datasets::mnist: ", images_file.string(), " has ",
        images.size(0), " images but ", labels_file.string(), " has ", labels.size(0), " labels");
  return {images.reshape({images.size(0), 1, images.size(1), images.size(2)}), labels, options};
}

std::string name_of(const InMemoryDataset& train, const Path& folder) {
  struct Known {
    const char* name;
    std::array<std::int64_t, 10> first_labels;
  };
  constexpr std::array<Known, 2> known{{{"MNIST", {5, 0, 4, 1, 9, 2, 1, 3, 1, 4}},
                                        {"Fashion-MNIST", {9, 0, 0, 3, 0, 2, 7, 2, 5, 5}}}};
  if (train.size() == 60000) {
    for (const Known& one : known) {
      if (std::ranges::equal(one.first_labels, train.labels().values<std::int64_t>().first(10))) {
        return one.name;
      }
    }
  }
  return folder.filename().string();
}

}  // namespace

Mnist mnist(const Path& named, const MnistOptions& options) {
  const auto [folder, files] = find(named, options);
  InMemoryDataset train = read_pair(files[0], files[1], options.images);
  InMemoryDataset test = read_pair(files[2], files[3], options.images);
  const Shape train_image(train.images().shape().sizes().subspan(2));
  const Shape test_image(test.images().shape().sizes().subspan(2));
  check(train_image == test_image, "datasets::mnist: the images of ", files[0].string(), " are ",
        train_image, " but those of ", files[2].string(), " are ", test_image);
  return {train, test, folder, name_of(train, folder)};
}

}  // namespace sinter::datasets
