// A model from its file alone, and files that are none.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "files.h"
#include <sinter/layers/model_file.h>
#include <sinter/layers/residual.h>
#include <sinter/layers/safetensors.h>
#include <sinter/layers/weights.h>

namespace sinter {
namespace {

using namespace testing;

// Every kind of member: parameters, buffers of both kinds, children in children.
constexpr const char* every_kind =
    "conv2d(2, 4, 3) -> batch_norm2d(4, momentum=none) -> relu(drop_p=0.3) -> "
    "adaptive_avg_pool2d(2) -> flatten -> linear(16, 8, bias=false) -> "
    "residual(layer_norm(8) -> sequential(linear(8, 8) -> softplus(beta=0.1))) -> sequential() -> "
    "glu(act=leaky_relu, negative_slope=0.2) -> batch_norm1d(4, affine=false) -> rms_norm(4)";

TEST_CASE("a model comes from its file alone, in every type") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    Sequential model = Sequential::parse(every_kind);
    model.to(dtype);
    const Tensor x = tensor({6, 2, 5, 5}, 1.0, 1, dtype);
    model(x);  // so that the running statistics are those of no other model
    save_weights(model, folder / "m");
    Sequential read = load_model(folder / "m");
    CHECK(read.training());
    CHECK(read.text() == model.text());
    const Parameters written = model.parameters(), loaded = read.parameters();
    REQUIRE(loaded.size() == written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
      CHECK(loaded[i].name == written[i].name);
      CHECK(same(loaded[i].value(), written[i].value()));
      CHECK(loaded[i].value().requires_grad());
    }
    const Buffers kept = model.buffers(), got = read.buffers();
    REQUIRE(got.size() == 6);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      CHECK(got[i].name == kept[i].name);
      CHECK(same(got[i].value, kept[i].value));
    }
    model.eval();
    read.eval();
    CHECK(same(read(x), model(x)));
  }
}

TEST_CASE("layers of several types, and those on another device, come back as they were") {
  const QuietFallback quiet;
  const TemporaryFolder folder;
  Sequential model{Linear{3, 4}, BatchNorm1d{4}, Linear{4, 2}};
  model.parameters();
  model[1].to(DType::float64);
  model[2].to(DType::bfloat16);
  save_weights(model, folder / "m");
  Sequential read = load_model(folder / "m");
  const Parameters parameters = read.parameters();
  CHECK(parameters[0].value().dtype() == DType::float32);
  CHECK(parameters[2].value().dtype() == DType::float64);
  CHECK(parameters[4].value().dtype() == DType::bfloat16);
  CHECK(read.buffers()[0].value.dtype() == DType::float64);
  model.to(DType::float32);
  model.to(Device::fake());
  save_weights(model, folder / "m");
  read = load_model(folder / "m");
  CHECK(read.parameters()[0].value().device() == Device::cpu());
  CHECK(same(read.parameters()[0].value(), model.parameters()[0].value()));
}

TEST_CASE("a loaded model goes on as the saved one: dropout, gradients, saving") {
  const TemporaryFolder folder;
  Sequential model{Linear{3, 4}, ReLU{.drop_p = 0.5}, Linear{4, 2}};
  save_weights(model, folder / "a");
  Sequential read = load_model(folder / "a");
  read.set_generator(std::make_shared<Generator>(*model.generator()));
  const Tensor x = tensor({9, 3}, 1.0, 1, DType::float32);
  for (Sequential* one : {&model, &read}) {
    Tape tape;
    tape.backward(sum((*one)(x)));
  }
  CHECK(same(read.parameters()[0].grad(), model.parameters()[0].grad()));
  save_weights(read, folder / "b");
  CHECK(read_bytes(folder / "a") == read_bytes(folder / "b"));
}

TEST_CASE("a file holds a text only if the same model comes of it") {
  struct Twice : Module {
    Tensor forward(const Tensor& x) override { return x + x; }
  };
  struct Scaled : Linear {  // which says that it is a linear
    using Linear::Linear;
    Tensor forward(const Tensor& x) override { return Linear::forward(x) * 2.0; }
  };
  struct Net : Sequential {
    Net() { add(Linear{2, 2}); }
  };
  const TemporaryFolder folder;
  Sequential own{Linear{2, 2}, Twice{}}, derived{Scaled{2, 2}}, empty;
  Linear alone{2, 2};
  Net net;
  for (Module* model : std::initializer_list<Module*>{&own, &derived, &alone, &net, &empty}) {
    save_weights(*model, folder / "m");
    CHECK(read_safetensors(folder / "m").metadata.empty());
    check_error([&] { load_model(folder / "m"); },
                {(folder / "m").string(), "does not say which layers the model has",
                 "build the model and call load_weights()"});
    load_weights(*model, folder / "m");
  }
}

TEST_CASE("files that are not a model's are told from those that are") {
  const TemporaryFolder folder;
  const auto path = folder / "m";
  Sequential model{Linear{2, 3}, BatchNorm1d{3}};
  save_weights(model, path);
  const TensorFile good = read_safetensors(path);
  const auto refused = [&](auto change, std::initializer_list<std::string_view> says) {
    TensorFile file = good;
    change(file);
    write_safetensors(path, file);
    check_error([&] { load_model(path); }, says);
    check_error([&] { load_model(path); }, {"weights file " + path.string()});
  };
  for (const char* version : {"abc", "", "-1", "0", "1x", " 1", "1.0"}) {
    CAPTURE(version);
    refused([&](TensorFile& f) { f.metadata["version"] = version; },
            {text("has the version \"", version, "\", expected a whole number of at least 1")});
  }
  refused([](TensorFile& f) { f.metadata.erase("version"); }, {"has the version \"\", expected"});
  refused([](TensorFile& f) { f.metadata["version"] = "2"; },
          {"is of version 2, and this sinter reads up to 1; read it with a newer one"});
  refused([](TensorFile& f) { f.metadata["model"] = "linear(2, 3) -> lstm(3)"; },
          {"cannot be read: Sequential::parse: unknown layer \"lstm\""});
  refused([](TensorFile& f) { f.metadata["model"] = "linear(2, 4) -> batch_norm1d(3)"; },
          {"holds 0.weight as float32 [3, 2], and its model has float32 [4, 2]"});
  refused(
      [](TensorFile& f) { f.metadata["model"] = "linear(2, 3) -> batch_norm1d(1000000000000)"; },
      {"holds 1.running_mean as float32 [3], and its model has float32 [1000000000000]"});
  refused([](TensorFile& f) { f.metadata["model"] = "linear(1000000000, 1000000000)"; },
          {"tensors"});
  refused(
      [](TensorFile& f) {
        f.tensors["0.weight"] = Tensor::zeros({3, 2}, DType::int64);
      },
      {"holds 0.weight as int64 [3, 2]"});
  refused([](TensorFile& f) { f.tensors["1.num_batches_tracked"] = Tensor::zeros({}); },
          {"holds 1.num_batches_tracked as float32 [], and its model has int64 []"});
  refused([](TensorFile& f) { f.metadata["version"] = "99999999999999999999"; },
          {"is of version 9"});
  refused([](TensorFile& f) { f.tensors["2.weight"] = Tensor::zeros({1}); },
          {"has 8 tensors, and its model 7"});
  refused(
      [](TensorFile& f) {
        f.tensors["0.weights"] = f.tensors["0.weight"];
        f.tensors.erase("0.weight");
      },
      {"holds no tensor 0.weight, which its model has"});
  check_error([&] { load_model(folder / "none"); }, {"cannot be opened"});
}

TEST_CASE("weights that are NaN are refused, by the name of the first") {
  const TemporaryFolder folder;
  const auto path = folder / "m";
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    Sequential model{Linear{2, 3}, Linear{3, 2}};
    model.to(dtype);
    save_weights(model, path);
    TensorFile file = read_safetensors(path);
    const auto poison = [&](const char* name, double value) {
      std::vector<double> values = doubles(file.tensors.at(name));
      values.back() = value;
      file.tensors[name] = Tensor::from(values, file.tensors.at(name).shape()).to(dtype);
    };
    poison("1.bias", std::numeric_limits<double>::infinity());
    write_safetensors(path, file);
    load_model(path);
    poison("1.weight", std::nan(""));
    poison("0.weight", std::nan(""));
    write_safetensors(path, file);
    const std::vector<double> before = doubles(model.parameters()[0].value());
    check_error([&] { load_model(path); },
                {"weights file " + path.string() + " holds a NaN in 0.weight"});
    check_error([&] { load_weights(model, path); },
                {"weights file " + path.string() + " holds a NaN in 0.weight"});
    CHECK(doubles(model.parameters()[0].value()) == before);
  }
}

}  // namespace
}  // namespace sinter
