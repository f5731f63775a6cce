// A module of one's own, as layers/module.h describes it.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "files.h"
#include <sinter/layers/gradcheck.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/weights.h>

namespace sinter {
namespace {

using namespace testing;

// The example of layers/module.h, word for word but for its sizes.
struct Block : Module {
  Linear in{4, 16}, out{16, 3};
  void members(Members& m) override {
    m.child("in", in);
    m.child("out", out);
  }
  Tensor forward(const Tensor& x) override { return out(relu(in(x))); }
};

// With a parameter, and a switch, of its own around a block that it holds twice.
struct Scaled : Module {
  Parameter scale{{3}, {1.0, 1.0}};
  Block first;
  Sequential then{Linear{3, 4}, Tanh{.drop_p = 0.5}};
  void members(Members& m) override {
    m.parameter("scale", scale);
    m.child("first", first);
    m.child("then", then);
  }
  Tensor forward(const Tensor& x) override { return then(first(x) * scale.value()); }
  std::string text() const override { return "scaled"; }
};

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> out;
  for (const NamedParameter& parameter : module.parameters()) {
    out.push_back(parameter.name);
  }
  return out;
}

TEST_CASE("names, shapes, summary and prediction of an own module") {
  Block block;
  CHECK(names_of(block) ==
        std::vector<std::string>{"in.weight", "in.bias", "out.weight", "out.bias"});
  CHECK(block(Tensor::zeros({5, 4})).shape() == Shape{5, 3});
  CHECK(block.predict(Tensor::zeros({5, 4})).shape() == Shape{5});
  CHECK(contains(block.summary({5, 4}), "out   linear(16, 3)"));
  Scaled scaled;
  CHECK(names_of(scaled) == std::vector<std::string>{"scale", "first.in.weight", "first.in.bias",
                                                     "first.out.weight", "first.out.bias",
                                                     "then.0.weight", "then.0.bias"});
  CHECK(doubles(scaled.scale.value()) == std::vector<double>{1, 1, 1});
  CHECK(contains(scaled.summary({5, 4}), "[5, 4]"));
}

TEST_CASE("a parameter that was never drawn says what to do") {
  Scaled scaled;
  CHECK(contains(error_of([&] {
                   scaled.forward(Tensor::zeros({5, 4}));
                 }),
                 "call the module as module(x)"));
  const Parameter ones{{2}, {.low = 1, .high = 1}};
  CHECK_FALSE(Parameter{}.value().defined());
  CHECK_THROWS_AS(ones.value(), Error);
}

TEST_CASE("an own module trains by hand, and is saved") {
  manual_seed(7);
  Block block;
  const Parameters parameters = block.parameters();
  const Tensor x = tensor({30, 4}, 1.0, 1, DType::float32);
  std::vector<std::int64_t> classes;
  const std::vector<double> values = doubles(x);
  for (std::size_t row = 0; row < 30; ++row) {
    classes.push_back(values[4 * row] > 0.3 ? 2 : values[4 * row + 1] > 0 ? 1 : 0);
  }
  const Tensor labels = Tensor::from(classes, {30});
  double first = 0;
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    Tape tape;
    const Tensor loss = cross_entropy(block(x), labels);
    tape.backward(loss);
    for (const NamedParameter& parameter : parameters) {
      Tensor p = parameter.value();
      p.copy_from(p.detach() - p.grad() * 0.5);
      p.clear_grad();
    }
    (step == 0 ? first : last) = loss.item();
  }
  CHECK(last < first / 5);
  std::int64_t right = 0;
  const auto predicted = block.predict(x).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    right += predicted[i] == classes[i] ? 1 : 0;
  }
  CHECK(right >= 28);
  const TemporaryFolder folder;
  save_weights(block, folder / "block.safetensors");
  Block loaded;
  CHECK_FALSE(same(loaded(x), block(x)));
  load_weights(loaded, folder / "block.safetensors");
  CHECK(same(loaded(x), block(x)));
}

TEST_CASE("an own module is copied deeply, in a Sequential too") {
  Scaled module;
  module.eval();
  const Tensor x = tensor({6, 4}, 1.0, 1, DType::float32);
  const Tensor before = module(x);
  Scaled copy = module;
  Sequential model{module, ReLU{}};
  for (const NamedParameter& parameter : module.parameters()) {
    Tensor value = parameter.value().detach();
    value.fill(0.1);
  }
  CHECK(same(copy(x), before));
  model.eval();
  CHECK(same(model(x), relu(before)));
  CHECK_FALSE(same(module(x), before));
  CHECK(names_of(model)[0] == "0.scale");
  copy = module;
  CHECK(same(copy(x), module(x)));
}

TEST_CASE("modes, moves and random numbers reach into an own module") {
  Scaled module;
  const Tensor x = tensor({6, 4}, 1.0, 1, DType::float32);
  CHECK_FALSE(same(module(x), module(x)));
  module.eval();
  CHECK(same(module(x), module(x)));
  CHECK(module.then.generator() == module.generator());
  module.to(DType::float64);
  CHECK(module(x.to(DType::float64)).dtype() == DType::float64);
  const Parameters parameters = module.parameters();
  CHECK(parameters.front().state->flat == parameters.back().state->flat);
}

// The same weights in two places.
struct Tied : Module {
  Linear first{3, 3}, second{3, 3};
  void members(Members& m) override {
    m.child("first", first);
    m.child("again", first);
    m.child("second", second);
  }
  Tensor forward(const Tensor& x) override { return second(first(tanh(first(x)))); }
};

TEST_CASE("a parameter that two places share is one, under its first name") {
  Tied model;
  CHECK(names_of(model) ==
        std::vector<std::string>{"first.weight", "first.bias", "second.weight", "second.bias"});
  const Parameters parameters = model.parameters();
  CHECK(parameters[0].state->flat->values.numel() == 4 * 64);
  CHECK(model.parameters()[0].state->flat == parameters[0].state->flat);
  const Tensor x = tensor({2, 3}, 1.0, 1, DType::float32);
  const GradCheckReport report =
      check_model_gradient(model, x, tensor({2, 3}, 1.0, 2, DType::float32), MSELoss{});
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(report.checked == 24);
}

TEST_CASE("an own module in a Sequential does not fuse, and its errors carry its place") {
  Sequential model{Linear{4, 4}, Block{}, Tanh{}};
  Tape tape;
  model(Tensor::zeros({2, 4}));
  CHECK(tape.size() == 5);
  Sequential wrong{Linear{4, 5}, Block{}};
  check_error(
      [&] {
        wrong(Tensor::zeros({2, 4}));
      },
      {"layer 1 of the model", "linear(4, 16)", "[2, 5]"});
  CHECK(Block{}.text() == "module");
}

}  // namespace
}  // namespace sinter
