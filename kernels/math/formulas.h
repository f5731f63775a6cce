#pragma once

// The parts of activations that take more than a line to compute without overflow, cancellation or
// early underflow, as functions of one V like the activations themselves. Here for float, double
// and vectors; what a GPU computes with has forms of its own in fine.h (float32) and coarse.h
// (16-bit).

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

// a b, and x (a + b x^2), for a function that grows with the error of its argument: see fine.h.
template <class V>
SINTER_HD V product(V a, V b) {
  return a * b;
}
template <class V>
SINTER_HD V cubic(V x, double a, double b) {
  return x * (splat<V>(a) + splat<V>(b) * x * x);
}

// 1 / (1 + e^-z)
template <class V>
SINTER_HD V logistic(V z) {
  const V e = exp(-abs(z));
  return select(z < splat<V>(0), e, splat<V>(1)) / (splat<V>(1) + e);
}

// log(1 + e^-|z|), and that of z = scale x for a positive scale.
template <class V>
SINTER_HD V log1p_exp_minus_abs(V z) {
  return log1p_of_fraction(exp(-abs(z)));
}
template <class V>
SINTER_HD V log1p_exp_minus_abs(V scale, V x) {
  return log1p_exp_minus_abs(product(scale, x));
}

// e^x - 1 for x <= 0; for others anything, but NaN for NaN.
template <class V>
SINTER_HD V expm1_of_negative(V x) {
  return expm1(x);
}

// |x|, held where the tail of the normal distribution is 0 in the type of the result, so that
// infinity times 0 is kept away.
template <class V>
SINTER_HD V size_within_tail(V x) {
  return min(abs(x), splat<V>(lanes<V> == 1 ? 40 : 37));
}

// P(N > a) for a standard normal N and such an a. Through erfc, for (1 - erf(a / sqrt 2)) / 2 loses
// every digit on the right. A vector has it as e^(-a^2 / 2) times what remains; the scalar's erfc
// multiplies the rounding of its argument by a^2: 2e-13 in float64 at 37.
template <class V>
SINTER_HD V normal_tail(V a) {
  if constexpr (lanes<V> == 1) {
    return splat<V>(0.5) * erfc(a * splat<V>(0.70710678118654752440));
  } else {
    return exp_of_bounded(splat<V>(-0.5) * a * a) * scaled_normal_tail(a);
  }
}

// a times the density of N at a. The scalar's exponential enters as two halves, one on each side of
// the rest: where it is subnormal, and has lost digits that a factor a would bring to light, its
// root has not.
template <class V>
SINTER_HD V normal_density_times(V a) {
  const V scaled = splat<V>(0.39894228040143267794) * a;
  if constexpr (lanes<V> == 1) {
    const V half = exp(splat<V>(-0.25) * a * a);
    return scaled * half * half;
  } else {
    return scaled * exp_of_bounded(splat<V>(-0.5) * a * a);
  }
}

// a P(N > a), and the slope of its negative: P(N > a) less a times the density.
template <class V>
SINTER_HD V times_normal_tail(V a) {
  return a * normal_tail(a);
}
template <class V>
SINTER_HD V normal_tail_slope(V a) {
  return normal_tail(a) - normal_density_times(a);
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
