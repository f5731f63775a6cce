// Gradient checks of matrix products, alone and with what fuses behind them.
#include <memory>

#include "activation_settings.h"
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter::testing {
namespace {

void add_matmul(GradientCases& cases) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Shape a = transpose_a ? Shape{4, 3} : Shape{3, 4};
      const Shape b = transpose_b ? Shape{5, 4} : Shape{4, 5};
      cases.push_back(
          {"matmul(Tensor, Tensor, bool, bool)",
           std::string("a") + (transpose_a ? "^T" : "") + " b" + (transpose_b ? "^T" : ""),
           [=](Inputs x) { return matmul(x[0], x[1], transpose_a, transpose_b); },
           {tensor(a, 2.0, 1), tensor(b, 2.0, 2)}});
    }
  }
  cases.push_back({"matmul(Tensor, Tensor, bool, bool)",
                   "a matrix with itself",
                   [](Inputs x) { return matmul(x[0], x[0]); },
                   {tensor({3, 3})}});
}

void add_linear(GradientCases& cases) {
  const std::string name = "linear(Tensor, Tensor, Tensor)";
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 2, 3}, Shape{3}, Shape{1, 3}}) {
    const std::vector<Tensor> inputs{tensor(shape, 2.0, 1), tensor({5, 3}, 2.0, 2),
                                     tensor({5}, 2.0, 3)};
    cases.push_back({name, "input " + shape.str() + " with bias",
                     [](Inputs x) { return linear(x[0], x[1], x[2]); }, inputs});
    cases.push_back({name,
                     "input " + shape.str() + " without bias",
                     [](Inputs x) { return linear(x[0], x[1]); },
                     {inputs[0], inputs[1]}});
  }
  // All three gradients arrive where one is already: they must be added.
  cases.push_back({name,
                   "used twice",
                   [](Inputs x) {
                     return linear(x[0], x[1], x[2]) * linear(x[0], x[1], x[2]) +
                            linear(x[0] * 2.0, x[1], x[2]);
                   },
                   {tensor({4, 3}, 2.0, 1), tensor({5, 3}, 2.0, 2), tensor({5}, 2.0, 3)}});
}

template <class A>
void add_linear_activation(GradientCases& cases) {
  const std::string name =
      "linear_activation(Tensor, Tensor, Tensor, math::AnyActivation, DropoutOptions)";
  const std::vector<Tensor> inputs{tensor({3, 4}, 2.0, 1), tensor({5, 4}, 2.0, 2),
                                   tensor({5}, 2.0, 3)};
  int setting = 0;
  for (const A& act : settings<A>()) {
    const std::string which = std::string(A::name) + " setting " + std::to_string(setting++);
    cases.push_back(
        {name, which, [=](Inputs x) { return linear_activation(x[0], x[1], x[2], act); }, inputs});
    cases.push_back({name,
                     which + " with dropout, 3-d input, no bias",
                     [=](Inputs x) {
                       const DropoutOptions dropout{0.3, std::make_shared<Generator>(5)};
                       return linear_activation(x[0].reshape({3, 1, 4}), x[1], {}, act, dropout);
                     },
                     {inputs[0], inputs[1]}});
  }
}

}  // namespace

GradientCases matrix_cases() {
  GradientCases cases;
  add_matmul(cases);
  add_linear(cases);
  math::for_each_activation([&cases]<class A>() { add_linear_activation<A>(cases); });
  return cases;
}

}  // namespace sinter::testing
