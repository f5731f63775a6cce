// Gradient checks of the functions over rows: softmax, norms, gated linear units.
#include <memory>

#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/runtime/text.h>

namespace sinter::testing {
namespace {

Tensor weighted(const Tensor& y) { return y * tensor(y.shape(), 2.0, 77); }

}  // namespace

GradientCases row_cases() {
  GradientCases cases;
  for (const Shape& shape : {Shape{3, 4}, Shape{1, 1}, Shape{2, 3, 5}, Shape{7}}) {
    const std::string of = text("of ", shape);
    const std::string soft = "softmax(Tensor, int, DropoutOptions)";
    cases.push_back(
        {soft, of, [](Inputs x) { return weighted(softmax(x[0] * x[0])); }, {tensor(shape)}});
    cases.push_back({soft,
                     of + ", dropout",
                     [](Inputs x) {
                       const auto generator = std::make_shared<Generator>(3);
                       return weighted(softmax(x[0], -1, {.p = 0.4, .generator = generator}));
                     },
                     {tensor(shape)}});
    cases.push_back({"log_softmax(Tensor, int)",
                     of,
                     [](Inputs x) { return weighted(log_softmax(x[0])); },
                     {tensor(shape)}});
    cases.push_back({"softmin(Tensor, int)",
                     of,
                     [](Inputs x) { return weighted(softmin(x[0])); },
                     {tensor(shape)}});
  }
  const std::string layer = "layer_norm(Tensor, Shape, Tensor, Tensor, double, NormTail)";
  const std::string rms = "rms_norm(Tensor, Shape, Tensor, std::optional<double>, NormTail)";
  for (const Shape& normalized : {Shape{4}, Shape{3, 4}}) {
    const std::string of = text("over ", normalized);
    const std::vector<Tensor> all{tensor({2, 3, 4}), tensor(normalized, 2.0, 5),
                                  tensor(normalized, 2.0, 6)};
    cases.push_back(
        {layer, of,
         [=](Inputs x) { return weighted(layer_norm(x[0] * x[0], normalized, x[1], x[2], 1e-3)); },
         all});
    cases.push_back({layer,
                     of + ", no weight",
                     [=](Inputs x) { return weighted(layer_norm(x[0], normalized)); },
                     {tensor({2, 3, 4})}});
    cases.push_back({layer,
                     of + ", bias alone",
                     [=](Inputs x) { return weighted(layer_norm(x[0], normalized, {}, x[1])); },
                     {tensor({2, 3, 4}), tensor(normalized)}});
    cases.push_back({layer,
                     of + ", weight twice",
                     [=](Inputs x) {
                       const Tensor given = tensor({2, 3, 4}, 2.0, 8);
                       return weighted(
                           layer_norm(layer_norm(given, normalized, x[0]), normalized, x[0]));
                     },
                     {tensor(normalized)}});
    cases.push_back({layer,
                     of + ", one leaf as weight and bias",
                     [=](Inputs x) { return weighted(layer_norm(x[0], normalized, x[1], x[1])); },
                     {tensor({2, 3, 4}), tensor(normalized, 2.0, 5)}});
    cases.push_back({rms,
                     of,
                     [=](Inputs x) { return weighted(rms_norm(x[0], normalized, x[1], 1e-2)); },
                     {tensor({2, 3, 4}), tensor(normalized, 2.0, 5)}});
    cases.push_back({rms,
                     of + ", no weight",
                     [=](Inputs x) { return weighted(rms_norm(x[0], normalized)); },
                     {tensor({2, 3, 4})}});
  }
  math::for_each_activation([&]<class A>() {
    for (const double p : {0.0, 0.4}) {
      const std::string behind = text(std::string(A::name), ", dropout ", p);
      const auto tail = [p] {
        return NormTail{A{}, {.p = p, .generator = std::make_shared<Generator>(3)}};
      };
      cases.push_back(
          {layer,
           behind,
           [=](Inputs x) { return weighted(layer_norm(x[0], {5}, x[1], x[2], 1e-3, tail())); },
           {tensor({3, 2, 5}), tensor({5}, 2.0, 5), tensor({5}, 2.0, 6)}});
      cases.push_back({rms,
                       behind,
                       [=](Inputs x) { return weighted(rms_norm(x[0], {5}, x[1], 1e-3, tail())); },
                       {tensor({3, 2, 5}), tensor({5}, 2.0, 5)}});
    }
  });
  const NormTail silu{math::SiLU{}}, tanh{math::Tanh{}};
  for (const NormTail& tail : {silu, tanh}) {
    cases.push_back({layer,
                     "no weight, then an activation",
                     [=](Inputs x) { return weighted(layer_norm(x[0], {5}, {}, {}, 1e-3, tail)); },
                     {tensor({3, 5})}});
    cases.push_back(
        {layer,
         "bias alone, then an activation",
         [=](Inputs x) { return weighted(layer_norm(x[0], {5}, {}, x[1], 1e-3, tail)); },
         {tensor({3, 5}), tensor({5})}});
    cases.push_back({layer,
                     "parameters alone, one leaf as both",
                     [=](Inputs x) {
                       const Tensor given = tensor({4, 5}, 2.0, 8);
                       return weighted(layer_norm(given, {5}, x[0], x[0], 1e-3, tail));
                     },
                     {tensor({5}, 2.0, 5)}});
  }
  cases.push_back({rms,
                   "dropout alone",
                   [](Inputs x) {
                     const DropoutOptions dropped{.p = 0.4,
                                                  .generator = std::make_shared<Generator>(3)};
                     return weighted(rms_norm(x[0], {14}, {}, std::nullopt, {.dropout = dropped}));
                   },
                   {tensor({5, 14})}});
  const std::string gated = "glu(Tensor, math::AnyActivation, DropoutOptions)";
  math::for_each_activation([&]<class A>() {
    cases.push_back({gated,
                     std::string(A::name),
                     [](Inputs x) { return weighted(glu(x[0], A{})); },
                     {tensor({3, 2, 10})}});
  });
  cases.push_back({gated,
                   "dropout",
                   [](Inputs x) {
                     const auto generator = std::make_shared<Generator>(3);
                     return weighted(glu(x[0], math::SiLU{}, {.p = 0.4, .generator = generator}));
                   },
                   {tensor({5, 14})}});
  return cases;
}

}  // namespace sinter::testing
