// Fused functions against the chain of single ones that they stand for: with the same generator
// state, values and gradients are the same.
#include <memory>

#include <doctest/doctest.h>

#include "activation_settings.h"
#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter {
namespace {

using namespace testing;

constexpr double probabilities[] = {0.0, 0.3, 1.0};

struct Run {
  Tensor y;
  std::vector<Tensor> gradients;
};

// y = f(leaves, dropout) and the gradients of sum(y * weights), from fresh leaves and a generator
// in a state that is not the first.
template <class F>
Run run(F f, const std::vector<Tensor>& inputs, double p) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.clone().set_requires_grad());
  }
  const auto generator = std::make_shared<Generator>(23);
  generator->set_state(5, 2);
  Tape tape;
  Run out;
  out.y = f(leaves, DropoutOptions{p, generator});
  tape.backward(out.y, tensor(out.y.shape(), 1.0, 77, out.y.dtype()));
  for (const Tensor& leaf : leaves) {
    out.gradients.push_back(leaf.grad());
  }
  out.y = out.y.detach();
  return out;
}

// Largest differences, in values and in gradients.
struct Difference {
  double value, gradient;
};

Difference compare(const Run& a, const Run& b) {
  Difference out{largest_error(a.y, b.y), 0};
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    out.gradient = std::max(out.gradient, largest_error(a.gradients[i], b.gradients[i]));
  }
  return out;
}

using Leaves = std::vector<Tensor>;

// In float32, `single` undoes dropout's scale on the stored output where `chain` has the output
// itself: gradients may differ by rounding, and so may values, since `single` rounds once.
double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-14 : 1e-6; }

template <class A>
void check_activation_with_dropout(DType dtype) {
  const std::vector<Tensor> inputs{tensor({9, 13}, 8.0, 1, dtype)};
  for (const A& act : settings<A>()) {
    for (const double p : probabilities) {
      CAPTURE(A::name);
      CAPTURE(p);
      const Run fused =
          run([&](const Leaves& x, const DropoutOptions& d) { return activation(x[0], act, d); },
              inputs, p);
      const Run chain =
          run([&](const Leaves& x,
                  const DropoutOptions& d) { return dropout(activation(x[0], act), d); },
              inputs, p);
      const Difference difference = compare(fused, chain);
      CHECK(difference.value <= (p == 0.3 ? tolerance(dtype) : 0));
      CHECK(difference.gradient <= (p == 0.3 ? tolerance(dtype) : 0));
    }
  }
}

template <class A>
void check_linear_activation(DType dtype) {
  const std::vector<Tensor> inputs{tensor({9, 8}, 2.0, 1, dtype), tensor({13, 8}, 1.0, 2, dtype),
                                   tensor({13}, 2.0, 3, dtype)};
  for (const A& act : settings<A>()) {
    for (const double p : probabilities) {
      CAPTURE(A::name);
      CAPTURE(p);
      const Run fused =
          run([&](const Leaves& x,
                  const DropoutOptions& d) { return linear_activation(x[0], x[1], x[2], act, d); },
              inputs, p);
      // The same arithmetic in two passes: not a bit may differ.
      const Run two_passes =
          run([&](const Leaves& x,
                  const DropoutOptions& d) { return activation(linear(x[0], x[1], x[2]), act, d); },
              inputs, p);
      CHECK(same(fused.y, two_passes.y));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CHECK(same(fused.gradients[i], two_passes.gradients[i]));
      }
      const Run chain = run(
          [&](const Leaves& x, const DropoutOptions& d) {
            return dropout(activation(matmul(x[0], x[1], false, true) + x[2], act), d);
          },
          inputs, p);
      const Difference difference = compare(fused, chain);
      CHECK(difference.value <= 10 * tolerance(dtype));
      CHECK(difference.gradient <= 10 * tolerance(dtype));
    }
  }
}

TEST_CASE("activation with dropout equals dropout after the activation") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    CAPTURE(dtype);
    math::for_each_activation([=]<class A>() { check_activation_with_dropout<A>(dtype); });
  }
}

TEST_CASE("a linear with activation and dropout equals the chain of functions") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    CAPTURE(dtype);
    math::for_each_activation([=]<class A>() { check_linear_activation<A>(dtype); });
  }
}

TEST_CASE("a linear equals its matrix product and bias") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    const std::vector<Tensor> inputs{tensor({6, 4, 8}, 2.0, 1, dtype),
                                     tensor({13, 8}, 1.0, 2, dtype), tensor({13}, 2.0, 3, dtype)};
    const Run fused = run(
        [](const Leaves& x, const DropoutOptions&) { return linear(x[0], x[1], x[2]); }, inputs, 0);
    CHECK(fused.y.shape() == Shape{6, 4, 13});
    const Run chain = run(
        [](const Leaves& x, const DropoutOptions&) {
          return (matmul(x[0].reshape({24, 8}), x[1], false, true) + x[2]).reshape({6, 4, 13});
        },
        inputs, 0);
    const Difference difference = compare(fused, chain);
    CHECK(difference.value <= 10 * tolerance(dtype));
    CHECK(difference.gradient <= 10 * tolerance(dtype));
  }
}

}  // namespace
}  // namespace sinter
