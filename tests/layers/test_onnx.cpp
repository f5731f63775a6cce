// ONNX files as far as they can be judged without a runtime for them; tests/exchange runs them in
// one.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "files.h"
#include <sinter/layers/embedding.h>
#include <sinter/layers/onnx.h>
#include <sinter/layers/onnx_graph.h>
#include <sinter/layers/protobuf.h>
#include <sinter/layers/residual.h>
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;

// The examples of https://protobuf.dev/programming-guides/encoding, and numbers as IEEE 754 and
// two's complement have them.
TEST_CASE("messages are written in the wire format of protocol buffers") {
  using Bytes = std::string;
  CHECK(ProtobufMessage().integer(1, 150).bytes() == Bytes("\x08\x96\x01"));
  CHECK(ProtobufMessage().text(2, "testing").bytes() == Bytes("\x12\x07testing"));
  CHECK(ProtobufMessage().message(3, ProtobufMessage().integer(1, 150)).bytes() ==
        Bytes("\x1a\x03\x08\x96\x01"));
  CHECK(ProtobufMessage().integer(1, -2).bytes() ==
        Bytes("\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
  CHECK(ProtobufMessage().real(5, 1.5f).bytes() == Bytes("\x2d\x00\x00\xc0\x3f", 5));
  CHECK(ProtobufMessage().integer(20, 1).bytes() == Bytes("\xa0\x01\x01"));
  CHECK(ProtobufMessage().begin_bytes(9, 300).bytes() == Bytes("\x4a\xac\x02"));
}

Sequential example() {
  return Sequential{Linear{4, 8}, BatchNorm1d{8}, ReLU{.drop_p = 0.5}, Linear{8, 3}, Dropout{}};
}

TEST_CASE("parameters and buffers keep their names, and only they count as initializers") {
  Sequential model = example();
  OnnxGraph graph(model, {2, 4}, std::nullopt, {"input"});
  CHECK(graph.run(model, "input") == "4/Gemm");
  std::string names, ops;
  for (const OnnxInitializer& one : graph.initializers()) {
    names += one.name + one.value.shape().str() + " ";
  }
  for (const OnnxNode& node : graph.nodes()) {
    ops += node.op + " ";
  }
  CHECK(names ==
        "0.weight[8, 4] 0.bias[8] 1.weight[8] 1.bias[8] 1.running_mean[8] 1.running_var[8] "
        "4.weight[3, 8] 4.bias[3] ");
  CHECK(ops == "Gemm BatchNormalization Relu Gemm ");
  CHECK(graph.output().shape == Shape{2, 3});
}

TEST_CASE("every activation has an ONNX form") {
  math::for_each_activation([]<class A>() {
    CAPTURE(A::name);
    Sequential model{ActivationLayer<A>{}};
    OnnxGraph graph(model, {1, 2}, std::nullopt, {"x"});
    CHECK(error_of([&] { graph.run(model, "x"); }) == "");
  });
}

TEST_CASE("a file leaves the model as it was, in any mode, and is the same each time") {
  const TemporaryFolder folder;
  manual_seed(3);
  Sequential model = example();
  Sequential twin = model;
  model[1].eval();
  export_onnx(model, folder / "a", {2, 4});
  export_onnx(model, folder / "b", {2, 4});
  CHECK(read_bytes(folder / "a") == read_bytes(folder / "b"));
  CHECK(model.training());
  CHECK_FALSE(model[1].training());
  CHECK(model[2].training());
  model.train();
  const Tensor x = tensor({64, 4}, 1.0, 1, DType::float32);
  CHECK(same(model(x), twin(x)));  // no mask was drawn, no statistics taken
  const QuietFallback quiet;
  twin = model;
  twin.to(Device::fake());
  export_onnx(model, folder / "a", {2, 4});
  export_onnx(twin, folder / "b", {2, 4});
  CHECK(read_bytes(folder / "a") == read_bytes(folder / "b"));
}

TEST_CASE("what a model does not take is told by its layers, and nothing is written") {
  const TemporaryFolder folder;
  Sequential model = example();
  const auto refused = [&](const Shape& input, const OnnxOptions& options,
                           std::initializer_list<std::string_view> says) {
    check_error([&] { export_onnx(model, folder / "m.onnx", input, options); }, says);
    CHECK(std::filesystem::is_empty(folder.path()));
  };
  refused({2, 5}, {},
          {"layer 0 of the model: linear(4, 8): expected an input of [..., 4], got [2, 5]"});
  refused({}, {}, {"export_onnx: expected the shape of an input, batch included, got []"});
  refused({2, 4}, {.input_type = DType::float64}, {"float32 or of an integer type, got float64"});
  refused({2, 4}, {.input_type = DType::int64}, {"layer 0", "int64"});
  refused({2, 4}, {.output = "input"}, {"names of their own, got \"input\" and \"input\""});
  refused({2, 4}, {.output = ""}, {"names of their own"});
  refused({2, 4}, {.input = "0.weight"}, {"\"0.weight\" is the name of a parameter or buffer"});
  model = Sequential{Flatten{0}, Linear{8, 2}};
  refused({2, 4}, {},
          {"takes an input of [2, 4], but not", "batch", "expected an input of [..., 8]"});
  model = Sequential{Linear{4, 8}};
  check_error(
      [&] {
        export_onnx(model, folder / "no" / "m.onnx", {2, 4});
      },
      {"cannot write", (folder / "no/m.onnx").string()});
}

TEST_CASE("a module without an ONNX form is named with its place") {
  struct Twice : Module {
    Tensor forward(const Tensor& x) override { return x + x; }
    std::string text() const override { return "twice"; }
  };
  struct Scaled : Linear {
    using Linear::Linear;
    Tensor forward(const Tensor& x) override { return Linear::forward(x) * 2.0; }
  };
  const TemporaryFolder folder;
  Sequential unknown{ReLU{}, Residual{Tanh{}, Twice{}}};
  check_error(
      [&] {
        export_onnx(unknown, folder / "m", {2, 4});
      },
      {"export_onnx: layer 1.body.1 of the model, twice, has no ONNX form; let it override "
       "Module::onnx"});
  Sequential derived{Scaled{4, 4}};
  check_error(
      [&] {
        export_onnx(derived, folder / "m", {2, 4});
      },
      {"layer 0 of the model, linear(4, 4), is of a class derived from that layer"});
  Twice alone;
  check_error([&] { export_onnx(alone, folder / "m", {2, 4}); }, {"the model, twice, has no ONNX"});
}

TEST_CASE("mistakes in an ONNX form of one's own are told") {
  struct Forgetful : Module {
    Linear hidden{4, 4}, shown{4, 4};
    Parameter scale{{4}, {1, 1}};
    Buffer shift{Tensor::zeros({4})};
    int mistake = 0;
    void members(Members& m) override { m.child("shown", shown); }
    Tensor forward(const Tensor& x) override { return shown.forward(x); }
    std::string onnx(OnnxGraph& graph, const std::string& x) override {
      return mistake == 0   ? graph.run(hidden, x)
             : mistake == 1 ? graph.parameter(scale)
             : mistake == 2 ? graph.buffer(shift)
                            : graph.run(shown, x);
    }
  };
  const TemporaryFolder folder;
  Forgetful module;
  const auto export_it = [&] { export_onnx(module, folder / "m", {2, 4}); };
  check_error(export_it,
              {"the model, module, runs a module, linear(4, 4), that its members() do not"});
  module.mistake = 1;
  check_error(export_it,
              {"the model, module, uses a parameter of shape [4] that no members() names"});
  module.mistake = 2;
  check_error(export_it, {"the model, module, uses a buffer of shape [4] that no members() names"});
  module.mistake = 3;
  check_error(export_it, {"layer shown of the model, linear(4, 4), was not called as layer(x)"});
}

TEST_CASE("a layer called with inputs of two shapes has no one form") {
  struct Both : Module {
    Linear in{4, 4};
    void members(Members& m) override { m.child("in", in); }
    Tensor forward(const Tensor& x) override {
      return in(x.reshape({x.size(0) / 2, 2, 4})).reshape(x.shape()) + in(x);
    }
    std::string onnx(OnnxGraph& graph, const std::string& x) override { return graph.run(in, x); }
  };
  Both both;
  OnnxGraph graph(both, {2, 4}, std::nullopt, {"x"});
  check_error([&] { graph.run(both, "x"); },
              {"layer in of the model, linear(4, 4), is called with inputs of several shapes"});
}

TEST_CASE("names are made apart, and a model that does nothing still has an output") {
  struct Named : Module {
    Parameter gemm{{1}, {1, 1}};
    void members(Members& m) override { m.parameter("Relu", gemm); }
    Tensor forward(const Tensor& x) override { return relu(relu(x)); }
    std::string onnx(OnnxGraph& graph, const std::string& x) override {
      return graph.activation(math::ReLU{}, graph.activation(math::ReLU{}, x));
    }
  };
  Named named;
  OnnxGraph graph(named, {2, 4}, std::nullopt, {"x", "Relu_2"});
  CHECK(graph.run(named, "x") == "Relu_3");
  graph.name_output("Relu_3", "y");
  CHECK(graph.nodes().front().outputs == std::vector<std::string>{"Relu_1"});
  CHECK(graph.nodes().back().outputs == std::vector<std::string>{"y"});
  Sequential nothing{Dropout{}};
  OnnxGraph plain(nothing, {2, 4}, std::nullopt, {"x"});
  plain.name_output(plain.run(nothing, "x"), "y");
  REQUIRE(plain.nodes().size() == 1);
  CHECK(plain.nodes()[0].op == "Identity");
  CHECK(plain.nodes()[0].inputs == std::vector<std::string>{"x"});
}

TEST_CASE("a file beyond what the format holds is refused before it is written") {
  struct Huge : Module {
    Tensor forward(const Tensor& x) override { return x; }
    std::string onnx(OnnxGraph& graph, const std::string& x) override {
      // Never touched, so it takes no memory.
      return graph.node("Add", {x, graph.constant(Tensor::empty({1 << 29, 1}))});
    }
  };
  const TemporaryFolder folder;
  Huge huge;
  check_error(
      [&] {
        export_onnx(huge, folder / "m", {1, 1});
      },
      {"the file would have 21474", "ONNX ends at 2147483647; save_weights()"});
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace sinter
