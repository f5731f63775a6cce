#pragma once

// Losses of one element against its target, each defined once, with PyTorch's definitions and
// defaults: the value, and the slope by the element. Adding one is a struct here and its place in
// AnyLoss, a function in autograd/pointwise_losses.cpp, and a line in layers/losses.h.
//
// V is double, or what a GPU computes float32 with; `wide` says that a GPU takes double too, where
// a square would overflow or there is no function to lose time with.

#include <cstdint>
#include <variant>

#include <sinter/kernels/math/fine.h>
#include <sinter/kernels/math/formulas.h>
#include <sinter/kernels/math/functions.h>
#include <sinter/kernels/math/hd.h>

namespace sinter::math {

template <class V>
struct LossTerm {
  V value;
  V slope;
};

// |x - t|; the slope at 0 is 0.
struct AbsoluteError {
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD LossTerm<V> operator()(V x, V target) const {
    const V d = x - target;
    const V sign = select(d == splat<V>(0), d, copysign(splat<V>(1), d));
    return {abs(d), unless_nan(d, sign)};
  }
};

struct SquaredError {
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD LossTerm<V> operator()(V x, V target) const {
    const V d = x - target;
    return {d * d, d + d};
  }
};

// Huber, "Robust estimation of a location parameter", 1964: d^2 / 2 up to |d| = delta, then
// straight on.
struct Huber {
  double delta = 1;
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD LossTerm<V> operator()(V x, V target) const {
    const V d = x - target, size = abs(d), most = splat<V>(delta), half = splat<V>(0.5);
    const V far = most * (size - half * most), slope = copysign(most, d);
    const auto is_far = size > most;
    return {select(is_far, far, half * d * d), select(is_far, slope, d)};
  }
};

// Huber's for delta = beta, divided by it; for beta = 0 the absolute error (Girshick, "Fast R-CNN",
// 2015).
struct SmoothAbsoluteError {
  double beta = 1;
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD LossTerm<V> operator()(V x, V target) const {
    const LossTerm<V> straight = AbsoluteError{}(x, target);
    const V d = x - target, width = splat<V>(beta), half = splat<V>(0.5);
    const auto is_near = abs(d) < width;
    return {select(is_near, half * d * d / width, straight.value - half * width),
            select(is_near, d / width, straight.slope)};
  }
};

// -t log p - (1 - t) log(1 - p) of the probability p = 1 / (1 + e^-x), for a target in [0, 1]; what
// belongs to t is weighted. Of log p and log(1 - p) the one whose argument is near 1 is had from
// e^-|x|, and the other one is |x| more.
struct BinaryCrossEntropy {
  static constexpr bool wide = false;
  template <class V>
  SINTER_HD LossTerm<V> operator()(V x, V target, V weight) const {
    const V zero = splat<V>(0), rest = log1p_exp_minus_abs(x);
    const V of_one = weight * target, of_zero = splat<V>(1) - target;
    const V value = of_zero * max(x, zero) + of_one * max(-x, zero) + (of_one + of_zero) * rest;
    return {value, of_zero * logistic(x) - of_one * logistic(-x)};
  }
};

// t (log t - x) for a target probability t and x = log q (Kullback and Leibler, "On information and
// sufficiency", 1951), 0 where t is; or the target is log t.
struct KLDivergence {
  bool log_target = false;
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD LossTerm<V> operator()(V x, V target) const {
    if (log_target) {
      const V t = exp(target);
      return {t * (target - x), -t};
    }
    const V value = target * (log(target) - x);
    return {select(target == splat<V>(0), unless_nan(x, splat<V>(0)), value), -target};
  }
};

using AnyLoss = std::variant<AbsoluteError, SquaredError, Huber, SmoothAbsoluteError,
                             BinaryCrossEntropy, KLDivergence>;

// Whether a loss takes a weight as its third argument.
template <class L>
inline constexpr bool takes_weight = requires(const L& loss, double x) {
  loss(x, x, x);
};

template <class L, class V>
SINTER_HD LossTerm<V> loss_term(const L& loss, V x, V target, [[maybe_unused]] V weight) {
  if constexpr (takes_weight<L>) {
    return loss(x, target, weight);
  } else {
    return loss(x, target);
  }
}

}  // namespace sinter::math
