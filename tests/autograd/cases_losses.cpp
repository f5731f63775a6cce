// Gradient checks of the losses.
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter::testing {
namespace {

const char* name_of(Reduction reduction) {
  return reduction == Reduction::mean ? "mean" : reduction == Reduction::sum ? "sum" : "none";
}

}  // namespace

GradientCases loss_cases() {
  GradientCases cases;
  const std::string entropy = "cross_entropy(Tensor, Tensor, CrossEntropyOptions)";
  const std::string fused =
      "linear_cross_entropy(Tensor, Tensor, Tensor, Tensor, CrossEntropyOptions)";
  const std::string mse = "mse_loss(Tensor, Tensor, MseOptions)";
  const Tensor labels = Tensor::from<std::int64_t>({2, 0, 3, 2, 1}, {5});
  const Tensor weights = Tensor::from({0.5, 2.0, 1.25, 0.0}, {4});
  const std::vector<Tensor> logits{tensor({5, 4}, 4.0)};
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      for (const bool weighted : {false, true}) {
        for (const std::int64_t ignore : {std::int64_t{-100}, std::int64_t{2}}) {
          const CrossEntropyOptions options{reduction, smoothing, ignore,
                                            weighted ? weights : Tensor{}};
          cases.push_back({entropy,
                           text(name_of(reduction), ", smoothing ", smoothing,
                                weighted ? ", weighted" : "", ", ignoring ", ignore),
                           [=](Inputs x) { return cross_entropy(x[0], labels, options); }, logits});
        }
      }
    }
    const CrossEntropyOptions options{reduction, 0.1, 2, weights};
    cases.push_back(
        {fused,
         text(name_of(reduction), ", smoothed, weighted, ignoring"),
         [=](Inputs x) { return linear_cross_entropy(x[0], x[1], x[2], labels, options) * 2.0; },
         {tensor({5, 3}), tensor({4, 3}, 2.0, 4), tensor({4}, 2.0, 5)}});
    const Tensor target = tensor({2, 3}, 2.0, 9);
    cases.push_back({mse,
                     name_of(reduction),
                     [=](Inputs x) { return mse_loss(x[0], target, {.reduction = reduction}); },
                     {tensor({2, 3})}});
  }
  const std::string computed = "of computed logits, scaled: the gradient that comes in is not 1";
  cases.push_back({entropy, computed,
                   [=](Inputs x) { return cross_entropy(x[0] * x[0], labels) * 3.0; }, logits});
  cases.push_back(
      {fused,
       "of a pass, without bias",
       [=](Inputs x) { return linear_cross_entropy(tanh(x[0]), x[1], {}, labels) + sum(x[0]); },
       {tensor({5, 3}), tensor({4, 3}, 2.0, 4)}});
  for (const DType dtype : {DType::int32, DType::uint8}) {
    cases.push_back({entropy, text(dtype, " labels"),
                     [=](Inputs x) { return cross_entropy(x[0], labels.to(dtype)); }, logits});
  }
  cases.push_back({mse,
                   computed,
                   [](Inputs x) {
                     return mse_loss(x[0] * x[0], Tensor::full({2, 3}, 0.5, DType::float64)) * 3.0;
                   },
                   {tensor({2, 3})}});
  for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
    cases.push_back(
        {mse,
         text(name_of(reduction), ", of two inputs"),
         [=](Inputs x) { return mse_loss(x[0], x[1] * x[0], {.reduction = reduction}) * 3.0; },
         {tensor({2, 3}), tensor({2, 3}, 2.0, 5)}});
  }
  return cases;
}

}  // namespace sinter::testing
