// A Linear with what stands behind it runs as one function: bit for bit what the layers give one
// after the other.
#include <cmath>

#include <doctest/doctest.h>

#include "../autograd/activation_settings.h"
#include "../autograd/values.h"
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;

struct Run {
  Tensor y;
  std::vector<Tensor> gradients;
  std::size_t functions;
};

// One training step from the random state (step 3, call 0), the whole at once or layer by layer.
Run run(Sequential model, const Tensor& input, bool whole) {
  const Parameters parameters = model.parameters();
  model.generator()->set_state(3, 0);
  Tensor x = input.clone();
  x.set_requires_grad();
  Tape tape;
  Tensor y = x;
  if (whole) {
    y = model(x);
  } else {
    for (std::size_t i = 0; i < model.size(); ++i) {
      y = model[i](y);
    }
  }
  Run out{y.detach(), {}, tape.size()};
  tape.backward(y, tensor(y.shape(), 1.0, 9, y.dtype()));
  out.gradients.push_back(x.grad());
  for (const NamedParameter& parameter : parameters) {
    out.gradients.push_back(parameter.grad());
  }
  return out;
}

// Whether both give the same bits; `functions` is what the fused run may record.
void check_same(const Sequential& model, const Tensor& x, std::size_t functions) {
  CAPTURE(model.text());
  CAPTURE(x.shape());
  const Run fused = run(model, x, true);
  const Run chain = run(model, x, false);
  CHECK(fused.functions == functions);
  CHECK(same(fused.y, chain.y));
  REQUIRE(fused.gradients.size() == chain.gradients.size());
  for (std::size_t i = 0; i < fused.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(same(fused.gradients[i], chain.gradients[i]));
  }
}

// With a module for dropout of its own, the chain rounds between activation and scaling where the
// fused function may not: values agree to the last bit but one.
void check_close(const Sequential& model, const Tensor& x, std::size_t functions) {
  CAPTURE(model.text());
  const Run fused = run(model, x, true);
  const Run chain = run(model, x, false);
  CHECK(fused.functions == functions);
  const double tolerance = x.dtype() == DType::float64 ? 1e-14 : 1e-6;
  CHECK(largest_error(fused.y, chain.y) <= tolerance);
  for (std::size_t i = 0; i < fused.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(largest_error(fused.gradients[i], chain.gradients[i]) <= 10 * tolerance);
  }
  // The same elements are dropped.
  const std::vector<double> a = doubles(fused.y);
  const std::vector<double> b = doubles(chain.y);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dropped += a[i] == 0 ? 1 : 0;
    CHECK((a[i] == 0) == (b[i] == 0));
  }
  CHECK(dropped > a.size() / 5);
}

template <class A>
void check_activation(DType dtype) {
  const Tensor x = tensor({33, 5}, 2.0, 1, dtype);
  const auto converted = [dtype](Sequential model) {
    model.to(dtype);
    return model;
  };
  for (const A& act : settings<A>()) {
    const ActivationLayer<A> plain{.act = act};
    const ActivationLayer<A> dropping{.act = act, .drop_p = 0.4};
    check_same(converted(Sequential{Linear{5, 13}, plain}), x, 1);
    check_same(converted(Sequential{Linear{5, 13}, dropping}), x, 1);
    check_same(converted(Sequential{Linear{5, 13, {.bias = false}}, dropping}), x, 1);
    check_close(converted(Sequential{Linear{5, 13}, plain, Dropout{.p = 0.4}}), x, 1);
  }
}

TEST_CASE("a Linear with each activation, with and without dropout") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    math::for_each_activation([dtype]<class A>() { check_activation<A>(dtype); });
  }
}

TEST_CASE("at every batch size") {
  for (const std::int64_t batch : {0, 1, 2, 31, 33, 127, 129, 255, 257}) {
    for (const Shape& shape : {Shape{batch, 19}, Shape{batch, 2, 19}}) {
      const Tensor x = tensor(shape, 1.0, 2, DType::float32);
      check_same(Sequential{Linear{19, 67}, SiLU{.drop_p = 0.3}}, x, 1);
      check_same(Sequential{Linear{19, 67}, Tanh{.drop_p = 0.3}}, x, 1);
    }
  }
}

TEST_CASE("what fuses, and what must not") {
  const Tensor x = tensor({9, 4}, 1.0, 3, DType::float32);
  check_same(Sequential{Linear{4, 5}, Linear{5, 6}}, x, 2);
  check_same(Sequential{Linear{4, 5}, Dropout{.p = 0.5}}, x, 2);
  check_same(Sequential{ReLU{.drop_p = 0.5}, Linear{4, 5}}, x, 2);
  check_same(Sequential{Linear{4, 5}, Tanh{}, Sigmoid{}}, x, 2);
  // Two dropouts in a row are two.
  check_same(Sequential{Linear{4, 50}, Tanh{.drop_p = 0.3}, Dropout{.p = 0.5}}, x, 2);
  // In a 16-bit type the fused function does not round in between, and is nearer to the truth.
  Sequential half{Linear{4, 5}, GELU{}};
  half.to(DType::float16);
  Sequential exact = half;
  exact.to(DType::float64);
  const Tensor y = exact(x.to(DType::float16).to(DType::float64));
  CHECK(largest_error(half(x.to(DType::float16)), y) <= 0x1p-11);
}

TEST_CASE("in eval mode the dropout behind a Linear does nothing") {
  Sequential model{Linear{4, 50}, Tanh{}, Dropout{.p = 0.5}, Linear{50, 20}, ReLU{.drop_p = 0.5}};
  model.eval();
  const Tensor x = tensor({9, 4}, 1.0, 3, DType::float32);
  check_same(model, x, 2);
  const std::uint32_t calls = model.generator()->next_call();
  model(x);
  CHECK(model.generator()->next_call() == calls);
}

// A layer that computes something else than the class that it is derived from.
struct TwiceLinear : Linear {
  using Linear::Linear;
  Tensor forward(const Tensor& x) override { return Linear::forward(x) * 2.0; }
};
struct NegatedReLU : ActivationModule {
  NegatedReLU() : ActivationModule(math::ReLU{}, 0) {}
  Tensor forward(const Tensor& x) override { return -ActivationModule::forward(x); }
};
struct HalvingDropout : DropoutModule {
  HalvingDropout() : DropoutModule(0.5) {}
  Tensor forward(const Tensor& x) override { return x * 0.5; }
};

TEST_CASE("a class derived from a layer keeps its own forward") {
  const Tensor x = tensor({9, 4}, 1.0, 3, DType::float32);
  Sequential model{TwiceLinear{4, 6}, Sigmoid{}};
  check_same(model, x, 3);
  auto& twice = dynamic_cast<TwiceLinear&>(model[0]);
  CHECK(same(model(x), sigmoid(twice(x))));
  Sequential negated{Linear{4, 6}, NegatedReLU{}};
  for (const double y : doubles(negated(x))) {
    CHECK(y <= 0);
  }
  check_same(negated, x, 3);
  Sequential halved{Linear{4, 6}, Sigmoid{}, HalvingDropout{}};
  check_same(halved, x, 2);
  auto& linear = dynamic_cast<Linear&>(halved[0]);
  CHECK(same(halved(x), sigmoid(linear(x)) * 0.5));
}

TEST_CASE("cross_entropy of a model is that of its output, gradients and errors too") {
  const Tensor x = tensor({9, 4}, 1.0, 3, DType::float32);
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3}, {9});
  const auto check = [&](Sequential model, const CrossEntropyOptions& options) {
    CAPTURE(model.text());
    const auto run = [&](bool as_one) {
      model.generator()->set_state(3, 0);
      Tape tape;
      const Tensor loss = as_one ? model.cross_entropy(x, labels, options)
                                 : cross_entropy(model(x), labels, options);
      tape.backward(loss);
      std::vector<std::vector<float>> out{loss.to_vector<float>()};
      for (const NamedParameter& parameter : model.parameters()) {
        out.push_back(parameter.grad().to_vector<float>());
        Tensor value = parameter.value();
        value.clear_grad();
      }
      return out;
    };
    CHECK(run(true) == run(false));
  };
  const CrossEntropyOptions smoothed{.label_smoothing = 0.1, .ignore_index = 2};
  check(Sequential{Linear{4, 6}, ReLU{.drop_p = 0.3}, Linear{6, 5}}, {});
  check(Sequential{Linear{4, 6}, Tanh{}, Linear{6, 5, {.bias = false}}}, smoothed);
  check(Sequential{Linear{4, 5}}, smoothed);
  check(Sequential{Linear{4, 5}, Sigmoid{}}, smoothed);  // no Linear at the end
  check(Sequential{Linear{4, 6}, TwiceLinear{6, 5}}, {});

  Sequential model{Linear{4, 6}, ReLU{}, Linear{7, 5}};
  check_error([&] { model.cross_entropy(x, labels); }, {"layer 2 of the model", "7"});
  Sequential few{Linear{4, 4}};
  check_error([&] { few.cross_entropy(x, labels); }, {"cross_entropy: label 4 at row 4"});
}

}  // namespace
}  // namespace sinter
