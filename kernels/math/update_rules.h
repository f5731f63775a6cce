#pragma once

// Optimizers beside SGD and Adam, as torch.optim computes them: the update of one parameter
// element, its gradient and its state, which starts as zeros. The constants of a step are prepared
// once, outside the loop. Adding a rule is a struct here and its place in AnyRule, and a class in
// training/rule_optimizers.h.

#include <type_traits>
#include <variant>

#include <sinter/kernels/math/functions.h>
#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/optimizers.h>

namespace sinter::math {

// Averages of the gradient and its square, of which each rule makes something else: NAdam (Dozat,
// "Incorporating Nesterov momentum into Adam", 2016) and RAdam (Liu et al., "On the variance of the
// adaptive learning rate and beyond", 2020).
template <class T>
struct MomentsRule {
  static constexpr int states = 2;
  T one_minus_beta1;
  T beta2;
  T one_minus_beta2;
  T of_gradient;   // the share of the gradient in the step,
  T of_mean;       // and that of its mean
  T inverse_root;  // 1 / sqrt(1 - beta2^t)
  T eps;
  T weight_decay;  // added to the gradient: 0 when decoupled
  T keep;          // of the parameter: 1 - lr * weight_decay when decoupled, else 1
  bool divides;    // by the root of the square

  template <class V>
  SINTER_HD void operator()(V& parameter, V gradient, V (&state)[states]) const {
    const V kept = splat<V>(keep) * parameter;
    const V slope = gradient + splat<V>(weight_decay) * parameter;
    state[0] = without_subnormals(state[0] + splat<V>(one_minus_beta1) * (slope - state[0]));
    state[1] = splat<V>(beta2) * state[1] + splat<V>(one_minus_beta2) * slope * slope;
    const V step = splat<V>(of_gradient) * slope + splat<V>(of_mean) * state[0];
    const V root = sqrt(state[1]) * splat<V>(inverse_root) + splat<V>(eps);
    parameter = kept - (divides ? step / root : step);
  }
};

// Adam by the largest square so far (Reddi, Kale and Kumar, "On the convergence of Adam and
// beyond", 2018).
template <class T>
struct AmsgradRule {
  static constexpr int states = 3;
  AdamConstants<T> adam;

  template <class V>
  SINTER_HD void operator()(V& parameter, V gradient, V (&state)[states]) const {
    const V kept = splat<V>(adam.keep) * parameter;
    const V slope = gradient + splat<V>(adam.weight_decay) * parameter;
    state[0] = without_subnormals(state[0] + splat<V>(adam.one_minus_beta1) * (slope - state[0]));
    state[1] = splat<V>(adam.beta2) * state[1] + splat<V>(adam.one_minus_beta2) * slope * slope;
    state[2] = select(state[1] < state[2], state[2], state[1]);  // NaN comes through
    const V root = sqrt(state[2]) * splat<V>(adam.inverse_root) + splat<V>(adam.eps);
    parameter = kept - splat<V>(adam.step_size) * state[0] / root;
  }
};

// Tieleman and Hinton, "Lecture 6.5: rmsprop", 2012; centred: Graves, "Generating sequences with
// recurrent neural networks", 2013. State: square, then velocity, then mean.
template <class T, bool with_momentum, bool centred>
struct RmspropRule {
  static constexpr int states = 1 + (with_momentum ? 1 : 0) + (centred ? 1 : 0);
  T lr;
  T alpha;
  T one_minus_alpha;
  T eps;
  T weight_decay;
  T momentum;

  template <class V>
  SINTER_HD void operator()(V& parameter, V gradient, V (&state)[states]) const {
    const V slope = gradient + splat<V>(weight_decay) * parameter;
    state[0] = splat<V>(alpha) * state[0] + splat<V>(one_minus_alpha) * slope * slope;
    V square = state[0];
    if constexpr (centred) {
      V& mean = state[states - 1];
      mean = without_subnormals(mean + splat<V>(one_minus_alpha) * (slope - mean));
      const V spread = square - mean * mean;
      square = select(spread < splat<V>(0), splat<V>(0), spread);  // below it by rounding alone
    }
    V step = slope / (sqrt(square) + splat<V>(eps));
    if constexpr (with_momentum) {
      state[1] = without_subnormals(splat<V>(momentum) * state[1] + step);
      step = state[1];
    }
    parameter = parameter - splat<V>(lr) * step;
  }
};

// Duchi, Hazan and Singer, "Adaptive subgradient methods", 2011.
template <class T>
struct AdagradRule {
  static constexpr int states = 1;
  T rate;     // lr / (1 + (t - 1) lr_decay)
  T initial;  // of the sum of squares, which the state leaves out
  T eps;
  T weight_decay;

  template <class V>
  SINTER_HD void operator()(V& parameter, V gradient, V (&state)[states]) const {
    const V slope = gradient + splat<V>(weight_decay) * parameter;
    state[0] = state[0] + slope * slope;
    const V root = sqrt(state[0] + splat<V>(initial)) + splat<V>(eps);
    parameter = parameter - splat<V>(rate) * slope / root;
  }
};

// As kernels take them that compute in float32.
SINTER_HD constexpr MomentsRule<float> narrowed(const MomentsRule<double>& c) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(c.one_minus_beta1), f(c.beta2), f(c.one_minus_beta2), f(c.of_gradient), f(c.of_mean),
          f(c.inverse_root),    f(c.eps),   f(c.weight_decay),    f(c.keep),        c.divides};
}
SINTER_HD constexpr AmsgradRule<float> narrowed(const AmsgradRule<double>& c) {
  return {narrowed(c.adam)};
}
template <bool with_momentum, bool centred>
SINTER_HD constexpr RmspropRule<float, with_momentum, centred> narrowed(
    const RmspropRule<double, with_momentum, centred>& c) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(c.lr), f(c.alpha), f(c.one_minus_alpha), f(c.eps), f(c.weight_decay), f(c.momentum)};
}
SINTER_HD constexpr AdagradRule<float> narrowed(const AdagradRule<double>& c) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(c.rate), f(c.initial), f(c.eps), f(c.weight_decay)};
}

using AnyRule =
    std::variant<MomentsRule<double>, AmsgradRule<double>, RmspropRule<double, false, false>,
                 RmspropRule<double, true, false>, RmspropRule<double, false, true>,
                 RmspropRule<double, true, true>, AdagradRule<double>>;

}  // namespace sinter::math
