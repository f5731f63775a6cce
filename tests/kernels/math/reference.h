#pragma once

// What the tests compare activations with: the textbook formulas in long double.

#include <algorithm>
#include <cmath>
#include <tuple>

#include <sinter/kernels/math/activations.h>

namespace sinter::math {

using Real = long double;

struct Reference {
  Real y;
  Real slope;
};

inline Real sigmoid_of(Real x) { return 1 / (1 + std::exp(-x)); }

inline Real softplus_of(Real x) {
  return x > 50 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// An activation that nobody has written a textbook formula for here is compared with itself in
// float64.
template <class A>
Reference reference(const A& a, Real x) {
  const auto narrow = static_cast<double>(x);
  if constexpr (derives_from_input<A>) {
    return {a.forward(narrow), a.derivative_from_input(narrow)};
  } else {
    return {a.forward(narrow), a.derivative_from_output(a.forward(narrow))};
  }
}

inline Reference reference(const Sigmoid&, Real x) {
  return {sigmoid_of(x), sigmoid_of(x) * sigmoid_of(-x)};
}
inline Reference reference(const LogSigmoid&, Real x) { return {-softplus_of(-x), sigmoid_of(-x)}; }
inline Reference reference(const Tanh&, Real x) {
  const Real c = std::cosh(x);
  return {std::tanh(x), 1 / (c * c)};
}
inline Reference reference(const ReLU&, Real x) { return {x > 0 ? x : 0, x > 0 ? 1.L : 0.L}; }
inline Reference reference(const GELU&, Real x) {
  const Real cdf = std::erfc(-x / std::sqrt(2.L)) / 2;
  return {x * cdf, cdf + x * std::exp(-x * x / 2) / std::sqrt(8 * std::atan(1.L))};
}
inline Reference reference(const GELUTanh&, Real x) {
  const Real k = std::sqrt(2 / (4 * std::atan(1.L))), c = 0.044715L;
  const Real z = 2 * k * (x + c * x * x * x);
  return {x * sigmoid_of(z),
          sigmoid_of(z) + x * sigmoid_of(z) * sigmoid_of(-z) * 2 * k * (1 + 3 * c * x * x)};
}
inline Reference reference(const SiLU&, Real x) {
  return {x * sigmoid_of(x), sigmoid_of(x) + x * sigmoid_of(x) * sigmoid_of(-x)};
}
inline Reference reference(const ReLU6&, Real x) {
  return {x < 0 ? 0 : x > 6 ? 6 : x, x > 0 && x < 6 ? 1.L : 0.L};
}
inline Reference reference(const Hardsigmoid&, Real x) {
  return {x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6, x > -3 && x < 3 ? 1 / 6.L : 0.L};
}
inline Reference reference(const Hardtanh& a, Real x) {
  return {x < a.min_val   ? Real{a.min_val}
          : x > a.max_val ? Real{a.max_val}
                          : x,
          x > a.min_val && x < a.max_val ? 1.L : 0.L};
}
inline Reference reference(const Hardswish&, Real x) {
  return {x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6, x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6};
}
inline Reference reference(const SELU&, Real x) {
  const Real s = 1.0507009873554804934193349852946L, a = 1.6732632423543772848170429916717L;
  return {x > 0 ? s * x : s * a * std::expm1(x), x > 0 ? s : s * a * std::exp(x)};
}
inline Reference reference(const Mish&, Real x) {
  const Real s = softplus_of(x), c = std::cosh(s);
  return {x * std::tanh(s), std::tanh(s) + x * sigmoid_of(x) / (c * c)};
}
inline Reference reference(const Softplus& a, Real x) {
  const Real z = a.beta * x;
  if (z > a.threshold) return {x, 1};
  return {softplus_of(z) / a.beta, sigmoid_of(z)};
}
inline Reference reference(const Softsign&, Real x) {
  const Real d = 1 + std::abs(x);
  return {x / d, 1 / (d * d)};
}
inline Reference reference(const Tanhshrink&, Real x) {
  const Real t = x * x, slope = std::tanh(x) * std::tanh(x);
  if (t > 1e-4L) return {x - std::tanh(x), slope};
  return {x * t * (1 / 3.L - t * (2 / 15.L - t * (17 / 315.L - t * (62 / 2835.L)))), slope};
}
inline Reference reference(const LeakyReLU& a, Real x) {
  return {x > 0 ? x : a.negative_slope * x, x > 0 ? 1 : Real{a.negative_slope}};
}
inline Reference reference(const ELU& a, Real x) {
  return {x > 0 ? x : a.alpha * std::expm1(x), x > 0 ? 1 : a.alpha * std::exp(x)};
}
inline Reference reference(const CELU& a, Real x) {
  return {x > 0 ? x : a.alpha * std::expm1(x / a.alpha), x > 0 ? 1 : std::exp(x / a.alpha)};
}
inline Reference reference(const Hardshrink& a, Real x) {
  return {std::abs(x) > a.lambd ? x : 0, std::abs(x) > a.lambd ? 1.L : 0.L};
}
inline Reference reference(const Softshrink& a, Real x) {
  return {x > a.lambd    ? x - a.lambd
          : x < -a.lambd ? x + a.lambd
                         : 0,
          std::abs(x) > a.lambd ? 1.L : 0.L};
}

// In float32 arithmetic a parameter is the nearest float32.
template <class A>
A as_computed(A a) {
  if constexpr (!A::wide) {
    std::apply([&](auto... f) { ((a.*f.member = static_cast<float>(a.*f.member)), ...); },
               A::fields);
  }
  return a;
}

// Units in the last place of a float32 near `exact`, down to the smallest subnormal. What is beyond
// the largest float32 is rightly infinite.
inline Real error_in_ulps(float got, Real exact) {
  if (std::isinf(got) && got == static_cast<float>(exact)) return 0;
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::abs(got - exact) / std::ldexp(1.L, exponent - 23);
}

}  // namespace sinter::math
