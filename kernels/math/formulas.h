#pragma once

// The parts of activations that take more than a line to compute without overflow, cancellation or
// early underflow, as functions of one V like the activations themselves.

#include <sinter/kernels/math/functions.h>
#include <sinter/kernels/math/hd.h>

namespace sinter::math {

inline constexpr double ln2 = 0.69314718055994530942;
inline constexpr double ln3 = 1.0986122886681098;

// `slope` for low < y < high, 0 on the bounds and beyond, NaN for NaN.
template <class V>
SINTER_HD V slope_between(V y, V low, V high, V slope) {
  const V below = select(y >= high, splat<V>(0), unless_nan(y, slope));
  return select(y <= low, splat<V>(0), below);
}

// P(N <= x) for a standard normal N. Through erfc, for 1 + erf(x / sqrt 2) loses every digit on the
// left. The rounding of the argument is still multiplied by x^2 there: 2e-13 in float64 at -37.
template <class V>
SINTER_HD V normal_cdf(V x) {
  return splat<V>(0.5) * erfc(x * splat<V>(-0.70710678118654752440));
}

// x times the density of N at x. The exponential enters as two halves, one on each side of the
// rest: where it is subnormal, and has lost digits that a factor x would bring to light, its root
// has not.
template <class V>
SINTER_HD V normal_pdf_times(V x) {
  const V half = exp(splat<V>(-0.25) * x * x);
  return splat<V>(0.39894228040143267794) * x * half * half;
}

// x * sigmoid(z), and the slope of that along z: sigmoid(z) * (1 + p * sigmoid(-z)), p = x dz/dx.
// e^-|z| in two halves, as above. +-infinity times a vanished e^-|z| is the caller's to keep out.
template <class V>
SINTER_HD V sigmoid_gate(V x, V z) {
  const V one = splat<V>(1);
  const auto left = z < splat<V>(0);
  const V half = exp(splat<V>(-0.5) * abs(z));
  const V gated = select(left, x * half, x) / (one + half * half);
  return select(left, gated * half, gated);
}

template <class V>
SINTER_HD V sigmoid_gate_slope(V z, V p) {
  const V one = splat<V>(1);
  const auto left = z < splat<V>(0);
  const V half = exp(splat<V>(-0.5) * abs(z));
  const V e = half * half;
  const V sum = one + e;
  const V slope = (sum + select(left, p, p * e)) / (sum * sum);
  return select(left, slope * half * half, slope);
}

// x * tanh(log(1 + e^x)) and its slope. With n = e^x (e^x + 2) the second factor is n / (n + 2):
// one exponential and a quotient of polynomials, here in e = e^-|x|, which cannot overflow.
template <class V>
SINTER_HD V softplus_tanh_gate(V x) {
  const V one = splat<V>(1), two = splat<V>(2);
  const auto left = x < splat<V>(0);
  const V half = exp(splat<V>(-0.5) * abs(x));
  const V e = half * half;
  const V top = select(left, x * half * (e + two), x * (one + two * e));
  const V y = top / select(left, e * (e + two) + two, one + two * e * (one + e));
  return select(left, y * half, y);
}

// n / (n + 2) + x * 4 e^x (1 + e^x) / (n + 2)^2, over one denominator.
template <class V>
SINTER_HD V softplus_tanh_gate_slope(V x) {
  const V one = splat<V>(1), two = splat<V>(2);
  const auto left = x < splat<V>(0);
  const V half = exp(splat<V>(-0.5) * abs(x));
  const V e = half * half;
  const V bottom = select(left, e * (e + two) + two, one + two * e * (one + e));
  const V change = splat<V>(4) * x * (e + one);
  const V top =
      select(left, (e + two) * bottom + change, (one + two * e) * bottom + change * e * e);
  const V slope = top / (bottom * bottom);
  return select(left, slope * half * half, slope);
}

// x - tanh(x), which cancels inside [-1, 1]. There: the ninth convergent of Lambert's continued
// fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))), subtracted from x by hand; all of its terms are
// positive, and it is off by 8e-17 relative at 1 and less inside.
template <class V>
SINTER_HD V minus_tanh(V x) {
  const V t = x * x;
  const V top = ((splat<V>(44) * t + splat<V>(12870)) * t + splat<V>(810810)) * t;
  const V bottom = ((splat<V>(45) * t + splat<V>(13860)) * t + splat<V>(945945)) * t;
  const V inside =
      x * t * (top + splat<V>(11486475)) / ((bottom + splat<V>(16216200)) * t + splat<V>(34459425));
  return select(t < splat<V>(1), inside, x - tanh(x));
}

}  // namespace sinter::math
