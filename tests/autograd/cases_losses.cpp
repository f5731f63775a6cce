// Gradient checks of the losses.
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter::testing {
namespace {

const char* name_of(Reduction reduction) {
  return reduction == Reduction::mean ? "mean" : reduction == Reduction::sum ? "sum" : "none";
}

// Of every loss of an element and its target; the inputs lie at no kink.
void pointwise_cases(GradientCases& cases, Reduction reduction) {
  const Tensor x = tensor({2, 3}), target = tensor({2, 3}, 2.0, 9);
  const auto of_both = [&](const std::string& function, const std::string& how, auto loss) {
    cases.push_back({function,
                     text(name_of(reduction), how),
                     [=](Inputs in) { return loss(in[0], in[1]) * 3.0; },
                     {x, target}});
  };
  const auto of_first = [&](const std::string& function, const std::string& how,
                            const Tensor& given, auto loss) {
    cases.push_back({function,
                     text(name_of(reduction), how),
                     [=](Inputs in) { return loss(in[0] * in[0], given) * 3.0; },
                     {x}});
  };
  of_both("l1_loss(Tensor, Tensor, L1Options)", "", [=](const Tensor& a, const Tensor& b) {
    return l1_loss(a, b, {.reduction = reduction});
  });
  for (const double width : {0.3, 1.0, 9.0}) {
    of_both("huber_loss(Tensor, Tensor, HuberOptions)", text(", delta ", width),
            [=](const Tensor& a, const Tensor& b) {
              return huber_loss(a, b, {reduction, width});
            });
    of_both("smooth_l1_loss(Tensor, Tensor, SmoothL1Options)", text(", beta ", width),
            [=](const Tensor& a, const Tensor& b) {
              return smooth_l1_loss(a, b, {reduction, width});
            });
  }
  const Tensor share = Tensor::from({0.0, 1.0, 0.25, 0.5, 0.9, 1.0}, {2, 3});
  const Tensor weight = Tensor::from({0.5, 2.0, 0.0}, {3});
  for (const bool weighted : {false, true}) {
    of_first(
        "binary_cross_entropy_with_logits(Tensor, Tensor, BceWithLogitsOptions)",
        weighted ? ", weighted" : "", share, [=](const Tensor& a, const Tensor& b) {
          return binary_cross_entropy_with_logits(a, b, {reduction, weighted ? weight : Tensor{}});
        });
  }
  const std::string divergence = "kl_div(Tensor, Tensor, KlDivOptions)";
  for (const bool log_target : {false, true}) {
    of_first(divergence, log_target ? ", log target" : "", share,
             [=](const Tensor& a, const Tensor& b) {
               return kl_div(a, b, {.reduction = reduction, .log_target = log_target});
             });
  }
  if (reduction == Reduction::mean) {
    of_first(divergence, " of the batch", share,
             [](const Tensor& a, const Tensor& b) { return kl_div(a, b, {.batch_mean = true}); });
  }
  const Tensor labels = Tensor::from<std::int64_t>({2, 0}, {2});
  for (const std::int64_t ignore : {std::int64_t{-100}, std::int64_t{0}}) {
    cases.push_back({"nll_loss(Tensor, Tensor, NllOptions)",
                     text(name_of(reduction), ", ignoring ", ignore),
                     [=](Inputs in) {
                       return nll_loss(in[0], labels, {reduction, ignore, weight + 1.0}) * 3.0;
                     },
                     {x}});
  }
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
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    pointwise_cases(cases, reduction);
  }
  return cases;
}

}  // namespace sinter::testing
