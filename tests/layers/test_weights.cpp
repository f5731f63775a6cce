// Weights to a file and back, and what is said of a file for another model.
#include <filesystem>
#include <sys/stat.h>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "files.h"
#include <sinter/layers/safetensors.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/weights.h>

namespace sinter {
namespace {

using namespace testing;

Sequential example() {
  return Sequential{Flatten{}, Linear{12, 7}, ReLU{.drop_p = 0.25}, Linear{7, 3, {.bias = false}}};
}

TEST_CASE("weights are written through a link, and over nothing but a regular file") {
  const TemporaryFolder folder;
  Sequential model{Linear{2, 2}};
  save_weights(model, folder / "run.st");
  std::filesystem::create_symlink(folder / "run.st", folder / "latest.st");
  save_weights(model, folder / "latest.st");
  CHECK(std::filesystem::is_symlink(folder / "latest.st"));
  CHECK(std::filesystem::is_regular_file(folder / "run.st"));
  load_weights(model, folder / "latest.st");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(save_weights(model, folder / "pipe"), Error);
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  CHECK_THROWS_AS(save_weights(model, folder.path()), Error);
}

TEST_CASE("two parameters of one name, and a module in itself, are refused") {
  struct Twins : Module {
    Linear a{2, 2}, b{2, 2};
    void members(Members& m) override {
      m.child("same", a);
      m.child("same", b);
    }
    Tensor forward(const Tensor& x) override { return b(a(x)); }
  };
  Twins twins;
  CHECK_THROWS_WITH_AS(twins.parameters(),
                       "two parameters of the model are named same.weight; name its members apart",
                       Error);
  struct Endless : Module {
    void members(Members& m) override { m.child("self", *this); }
    Tensor forward(const Tensor& x) override { return x; }
  };
  Endless endless;
  CHECK_THROWS_AS(endless.parameters(), Error);
}

TEST_CASE("saved and loaded weights give the same outputs bit for bit, in every type") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    const auto path = folder / "weights.safetensors";
    Sequential model = example();
    model.to(dtype);
    model.eval();
    const Tensor x = tensor({5, 3, 4}, 1.0, 1, dtype);
    save_weights(model, path);
    Sequential other = example();
    other.to(dtype);
    other.eval();
    CHECK_FALSE(same(other(x), model(x)));
    load_weights(other, path);
    CHECK(same(other(x), model(x)));
    const TensorFile file = read_safetensors(path);
    CHECK(file.tensors.size() == 3);
    for (const NamedParameter& parameter : model.parameters()) {
      CHECK(same(file.tensors.at(parameter.name), parameter.value()));
    }
  }
}

TEST_CASE("weights on another device are saved, and loaded to where they are") {
  const QuietFallback quiet;
  const TemporaryFolder folder;
  Sequential model = example();
  Sequential on_fake = model;
  on_fake.to(Device::fake());
  save_weights(on_fake, folder / "a");
  save_weights(model, folder / "b");
  CHECK(read_bytes(folder / "a") == read_bytes(folder / "b"));
  Sequential target = example();
  target.to(Device::fake());
  const Parameters held = target.parameters();
  const Tensor place = held[0].value();
  load_weights(target, folder / "a");
  CHECK(held[0].value().address() == place.address());  // optimizers keep their handles
  CHECK(same(held[0].value(), model.parameters()[0].value()));
}

TEST_CASE("the file names what torch names") {
  const TemporaryFolder folder;
  Sequential model = example();
  save_weights(model, folder / "w");
  std::string names;
  for (const auto& [name, value] : read_safetensors(folder / "w").tensors) {
    names += name + value.shape().str() + " ";
  }
  CHECK(names == "1.bias[7] 1.weight[7, 12] 4.weight[3, 7] ");
}

TEST_CASE("a file for another model lists missing, unexpected and different, and changes nothing") {
  const TemporaryFolder folder;
  const auto path = folder / "weights.safetensors";
  Sequential model = example();
  save_weights(model, path);
  Sequential other{Linear{12, 7}, Linear{12, 7}, ReLU{}, Tanh{}, Linear{7, 4, {.bias = false}}};
  std::vector<std::vector<double>> before;
  for (const NamedParameter& parameter : other.parameters()) {
    before.push_back(doubles(parameter.value()));
  }
  check_error([&] { load_weights(other, path); },
              {path.string(), "another model", "missing: 0.weight 0.bias;",
               "different: 4.weight (float32 [3, 7] in the file, float32 [4, 7] in the model);"});
  Sequential smaller{Flatten{}, Linear{12, 7}};
  check_error([&] { load_weights(smaller, path); }, {"unexpected: 4.weight;"});
  CHECK_FALSE(contains(error_of([&] { load_weights(smaller, path); }), "missing"));
  Sequential turned{Flatten{}, Linear{7, 12}, ReLU{.drop_p = 0.25}, Linear{7, 3, {.bias = false}}};
  check_error([&] { load_weights(turned, path); },
              {"different: 1.weight (float32 [7, 12] in the file, float32 [12, 7] in the model)",
               "1.bias (float32 [7] in the file, float32 [12] in the model)"});
  Sequential wide = example();
  wide.to(DType::float64);
  check_error([&] { load_weights(wide, path); },
              {"1.weight (float32 [7, 12] in the file, float64 [7, 12] in the model)"});
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(doubles(other.parameters()[i].value()) == before[i]);
  }
  load_weights(model, path);  // the file itself is good
}

TEST_CASE("a newer version is refused, and what other programs call a version is not looked at") {
  const TemporaryFolder folder;
  Sequential model{Linear{2, 2}};
  save_weights(model, folder / "w");
  TensorFile file = read_safetensors(folder / "w");
  file.metadata["version"] = "2";
  write_safetensors(folder / "w", file);
  const std::vector<double> before = doubles(model.parameters()[0].value());
  check_error([&] { load_weights(model, folder / "w"); },
              {"weights file " + (folder / "w").string() + " is of version 2", "reads up to 1"});
  CHECK(doubles(model.parameters()[0].value()) == before);
  file.metadata["format"] = "pt";
  write_safetensors(folder / "w", file);
  load_weights(model, folder / "w");
}

TEST_CASE("loading between forward and backward is noticed") {
  const TemporaryFolder folder;
  Sequential model{Linear{3, 4}, Tanh{}, Linear{4, 2}};
  save_weights(model, folder / "w");
  Tape tape;
  const Tensor loss = sum(model(tensor({2, 3}, 1.0, 1, DType::float32)));
  load_weights(model, folder / "w");
  check_error([&] { tape.backward(loss); }, {"linear", "written to in place"});
}

TEST_CASE("a path that cannot be read or written is told in full") {
  const TemporaryFolder folder;
  Sequential model = example();
  check_error([&] { load_weights(model, folder / "none"); },
              {(folder / "none").string(), "cannot be opened"});
  check_error([&] { load_weights(model, folder.path()); }, {folder.path().string()});
  check_error([&] { save_weights(model, folder / "no" / "such" / "folder"); },
              {"cannot write", (folder / "no/such/folder").string()});
  const auto here = std::filesystem::current_path() / "no-such-file-of-weights";
  check_error([&] { load_weights(model, "no-such-file-of-weights"); }, {here.string()});
}

TEST_CASE("saving over a file replaces it whole and leaves nothing beside it") {
  const TemporaryFolder folder;
  const auto path = folder / "weights";
  write_bytes(path, std::string(100'000, 'x'));
  Sequential model = example();
  save_weights(model, path);
  CHECK(std::filesystem::file_size(path) < 1000);
  load_weights(model, path);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  CHECK(files == 1);
}

}  // namespace
}  // namespace sinter
