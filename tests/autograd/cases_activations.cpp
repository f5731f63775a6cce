// Gradient checks of activations and dropout.
#include <memory>

#include "activation_settings.h"
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter::testing {
namespace {

// A generator of its own for each evaluation, so that all of them draw the same mask.
DropoutOptions fresh_dropout(double p, math::MaskScheme scheme = math::MaskScheme::lanes) {
  return {p, std::make_shared<Generator>(11), scheme};
}

template <class A>
using Function = Tensor (*)(const Tensor& x, const A& act, const DropoutOptions& dropout);

template <class A>
void add(GradientCases& cases, const char* name, Function<A> function) {
  // Both sides of every kink of the list, 6 being the furthest.
  const std::vector<Tensor> inputs{tensor({3, 7}, 8.0)};
  int setting = 0;
  for (const A& act : settings<A>()) {
    const std::string which = std::string(name) + " setting " + std::to_string(setting++);
    cases.push_back({name, which, [=](Inputs x) { return function(x[0], act, {}); }, inputs});
    cases.push_back({name, which + " with dropout",
                     [=](Inputs x) { return function(x[0], act, fresh_dropout(0.3)); }, inputs});
    cases.push_back({"activation(Tensor, math::AnyActivation, DropoutOptions)",
                     which + " by activation()",
                     [=](Inputs x) { return activation(x[0], act, fresh_dropout(0.1)); }, inputs});
  }
}

}  // namespace

GradientCases activation_cases() {
  GradientCases cases;
#define SINTER_TEST_CASE(Type, function)                                              \
  add<math::Type>(cases, #function,                                                   \
                  [](const Tensor& x, const math::Type& a, const DropoutOptions& d) { \
                    return function(x, a, d);                                         \
                  });
  SINTER_ACTIVATIONS(SINTER_TEST_CASE)
#undef SINTER_TEST_CASE
  // Both sides of the threshold, which the settings above leave out of reach.
  cases.push_back({"softplus",
                   "softplus around its threshold",
                   [](Inputs x) { return softplus(x[0], {.beta = 2, .threshold = 5}); },
                   {tensor({3, 7}, 8.0)}});
  const std::string dropout_name = "dropout(Tensor, DropoutOptions)";
  for (const double p : {0.1, 0.5, 1.0}) {
    cases.push_back({dropout_name,
                     "p = " + std::to_string(p),
                     [p](Inputs x) { return dropout(x[0], fresh_dropout(p)); },
                     {tensor({3, 11})}});
  }
  cases.push_back({dropout_name,
                   "p = 0",
                   [](Inputs x) { return dropout(x[0] * 3.0, {.p = 0.0}); },
                   {tensor({3, 11})}});
  cases.push_back(
      {dropout_name,
       "Triton's masks",
       [](Inputs x) { return dropout(x[0], fresh_dropout(0.4, math::MaskScheme::triton)); },
       {tensor({3, 11})}});
  return cases;
}

}  // namespace sinter::testing
