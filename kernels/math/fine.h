#pragma once

// The parts of formulas.h for float32 on a GPU, where float64 is dear: float32 arithmetic that
// carries along what one rounding would lose wherever that would grow on its way to the result.
// With them activations stay within 2 ulp, or 4 where the test says so.

#include <sinter/kernels/math/functions.h>
#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/scalar.h>

namespace sinter::math {

// A number in two parts, the low one less than an ulp of the high one: what e^z needs of z, since
// its relative error is the absolute error of z.
template <class V>
struct Twofold {
  V high;
  V low;
};

template <class U>
SINTER_HD Twofold<Fine<U>> product(Fine<U> a, Fine<U> b) {
  const Fine<U> high(U::multiply(a.value, b.value));
  return {high, fma(a, b, -high)};
}

// x (a + b x^2). The leading digits of a alone go into the sum, few enough for what it loses to be
// had exactly.
template <class U>
SINTER_HD Twofold<Fine<U>> cubic(Fine<U> x, double a, double b) {
  using V = Fine<U>;
  const double a_digits = static_cast<int>(a * 2048) / 2048.0;
  const V a_high = splat<V>(a_digits), a_low = splat<V>(a - a_digits);
  const V b_high = splat<V>(b), b_low = splat<V>(b - static_cast<float>(b));
  const auto square = product(x, x);
  const V sum = fma(b_high, square.high, a_high);
  const V lost = fma(b_high, square.high, a_high - sum);
  const V sum_low = lost + fma(b_high, square.low, fma(b_low, square.high, a_low));
  const V high(U::multiply(x.value, sum.value));
  return {high, fma(x, sum_low, fma(x, sum, -high))};
}

namespace detail {

// Exponentials are held 2^64 too large: they and their products stay normal numbers until the
// result vanishes.
inline constexpr double scale_down = 0x1p-64;

template <class V>
struct Power {
  V q;         // e^r - 1 for the |r| < 0.35 that is left of the argument
  V two_to_n;  // 2^n, times 2^64 where asked for
};

// 2^n, n being in the low bits of `shifted` and `one` the exponent of 1.
inline constexpr double round_to_integer = 0x1.8p23;
template <class V>
SINTER_HD V from_exponent(V shifted, std::uint32_t one) {
  const auto bits = static_cast<std::uint32_t>(to_bits(shifted));
  return from_bits<V>(static_cast<std::int32_t>((bits << 23) + (one << 23)));
}

// e^(z + low) for z in [-130, 43] as (1 + q) 2^n.
template <bool Scaled, class V>
SINTER_HD Power<V> power(V z, V low) {
  const V shifted = fma(z, splat<V>(1.44269504088896340736), splat<V>(round_to_integer));
  const V n = shifted - splat<V>(round_to_integer);
  const V r = fma(n, splat<V>(-ln2_low), fma(n, splat<V>(-ln2_high), z)) + low;
  return {fma(r * r, exp_tail(r), r), from_exponent<V>(shifted, Scaled ? 127 + 64 : 127)};
}

// The same by the GPU's own 2^r, in half the instructions and with an ulp more of error.
template <class V>
struct QuickPower {
  V p;         // e^r
  V two_to_n;  // times 2^64
};
// Of e^(k (z + low)).
template <class V>
SINTER_HD QuickPower<V> quick_power(double k, V z, V low) {
  const double exact = k * 1.44269504088896340736;
  const V factor = splat<V>(exact), rest = splat<V>(exact / static_cast<float>(exact) - 1);
  const V shifted = fma(z, factor, splat<V>(round_to_integer));
  const V n = shifted - splat<V>(round_to_integer);
  const V r = fma(fma(z, rest, low), factor, fma(z, factor, -n));
  return {exp2_of(r), from_exponent<V>(shifted, 127 + 64)};
}

// e^-|z|, 2^64 too large, where |z| beyond 130 counts as 130: e^-130 times whatever factor is left
// is below the smallest float32.
template <class U>
SINTER_HD Power<Fine<U>> decay(Fine<U> z) {
  using V = Fine<U>;
  return power<true>(-min(abs(z), splat<V>(130)), splat<V>(0));
}
template <class V>
SINTER_HD Twofold<V> decay_exponent(Twofold<V> z) {
  const V size = abs(z.high), limit = splat<V>(130);
  const V low = from_bits<V>(to_bits(z.low) ^ (~to_bits(z.high) & sign_bit<V>));
  // The low part of an infinity is no number.
  return {-min(size, limit), select(size < limit, low, splat<V>(0))};
}
template <class V>
SINTER_HD Power<V> decay(Twofold<V> z) {
  const auto [high, low] = decay_exponent(z);
  return power<true>(high, low);
}
template <class U>
SINTER_HD Power<Fine<U>> quick_decay(Fine<U> z) {
  return decay(z);  // quick enough: nothing of z is lost
}
template <class V>
SINTER_HD QuickPower<V> quick_decay(Twofold<V> z) {
  const auto [high, low] = decay_exponent(z);
  return quick_power(1, high, low);
}

template <class V>
SINTER_HD V times(V x, const QuickPower<V>& power) {
  return x * power.p * power.two_to_n;
}
template <class V>
SINTER_HD V value(const QuickPower<V>& power) {
  return power.p * power.two_to_n;
}

// x e^z of a power: one rounding, not two.
template <class V>
SINTER_HD V times(V x, const Power<V>& power) {
  const V scaled = x * power.two_to_n;
  return fma(scaled, power.q, scaled);
}
template <class V>
SINTER_HD V value(const Power<V>& power) {
  return fma(power.two_to_n, power.q, power.two_to_n);
}

template <class V>
SINTER_HD V high_part(V z) {
  return z;
}
template <class V>
SINTER_HD V high_part(Twofold<V> z) {
  return z.high;
}

// 1 / (sum + lost)
template <class V>
SINTER_HD Twofold<V> exact_reciprocal(V sum, V lost) {
  const V r(Unit<V>::reciprocal(sum.value));
  const V rest = r * (fma(-sum, r, splat<V>(1)) - lost * r), high = r + rest;
  return {high, rest - (high - r)};
}
template <class V>
SINTER_HD V reciprocal(V sum, V lost) {
  const V r(Unit<V>::reciprocal(sum.value));
  return fma(r, fma(-sum, r, splat<V>(1)) - lost * r, r);
}

// 1 / (1 + e^-|z|)
template <class V>
SINTER_HD V larger_half(const Power<V>& power) {
  const V e = value(power) * splat<V>(scale_down), sum = e + splat<V>(1);
  return reciprocal(sum, e - (sum - splat<V>(1)));
}
template <class V>
SINTER_HD V larger_half(const QuickPower<V>& power) {
  return reciprocal(fma(value(power), splat<V>(scale_down), splat<V>(1)));
}

template <class V, class Z>
SINTER_HD V gated(V x, Z z) {
  const auto e = quick_decay(z);
  const V inverse = larger_half(e);
  return select(high_part(z) < splat<V>(0), times(x, e) * inverse * splat<V>(scale_down),
                inverse * x);
}

// sigmoid(z) (1 + p sigmoid(-z)) on both sides of 0: beside the root the sum cancels, and then what
// sigmoid(-z) has lost comes in.
template <class V, class Z>
SINTER_HD V gated_slope(Z z, Twofold<V> p) {
  const Power<V> power = decay(z);
  const V one = splat<V>(1);
  const V e = value(power) * splat<V>(scale_down), sum = e + one, lost = e - (sum - one);
  const auto [inverse, inverse_low] = exact_reciprocal(sum, lost);
  const bool left = high_part(z) < splat<V>(0);
  const V small = times(inverse, power) * splat<V>(scale_down);
  const V other = select(left, inverse, small);
  const V low = fma(p.low, other, p.high * select(left, inverse_low, splat<V>(0)));
  const V slope = inverse * (fma(p.high, other, one) + low);
  return select(left, times(slope, power) * splat<V>(scale_down), slope);
}

template <class V, class Z>
SINTER_HD V log1p_of_decay(Z z) {
  const V e = value(quick_decay(z)) * splat<V>(scale_down);
  const V tail = polynomial(e, -0.49999932758390464, 0.3333051115990726, -0.24958585701613634,
                            0.19695391532314227, -0.15355370074248484, 0.1068051085118088,
                            -0.0576640019393628, 0.020204348985501528, -0.0033184201289647);
  return fma(e * e, tail, e);
}

}  // namespace detail

template <class U>
SINTER_HD Fine<U> logistic(Fine<U> z) {
  return detail::gated(splat<Fine<U>>(1), z);
}
template <class V>
SINTER_HD V logistic(Twofold<V> z) {
  return detail::gated(splat<V>(1), z);
}
template <class U>
SINTER_HD Fine<U> log1p_exp_minus_abs(Fine<U> z) {
  return detail::log1p_of_decay<Fine<U>>(z);
}
template <class V>
SINTER_HD V log1p_exp_minus_abs(Twofold<V> z) {
  return detail::log1p_of_decay<V>(z);
}
template <class U>
SINTER_HD Fine<U> sigmoid_gate(Fine<U> x, Fine<U> z) {
  return detail::gated(x, z);
}
template <class V>
SINTER_HD V sigmoid_gate(V x, Twofold<V> z) {
  return detail::gated(x, z);
}
template <class U>
SINTER_HD Fine<U> sigmoid_gate_slope(Fine<U> z, Fine<U> p) {
  return detail::gated_slope(z, Twofold<Fine<U>>{p, splat<Fine<U>>(0)});
}
template <class V>
SINTER_HD V sigmoid_gate_slope(Twofold<V> z, Twofold<V> p) {
  return detail::gated_slope(z, p);
}

// 2^n q + (2^n - 1), in which only the last sum can round noticeably.
template <class U>
SINTER_HD Fine<U> expm1_of_negative(Fine<U> x) {
  using V = Fine<U>;
  const auto [q, scale] = detail::power<false>(max(x, splat<V>(-30)), splat<V>(0));
  return fma(scale, q, scale - splat<V>(1));
}

namespace detail {

// 1 / (e^2a + 1) for a >= 0; beyond 20 it is lost beside 1.
template <class V>
SINTER_HD V half_of_one_minus_tanh(V a) {
  const auto [q, scale] = power<false>(min(a + a, splat<V>(40)), splat<V>(0));
  return reciprocal(fma(scale, q, scale) + splat<V>(1));
}

}  // namespace detail

template <class U>
SINTER_HD Fine<U> tanh(Fine<U> x) {
  using V = Fine<U>;
  const V a = abs(x);
  const V outside = fma(splat<V>(-2), detail::half_of_one_minus_tanh(a), splat<V>(1));
  return select(a < splat<V>(0.625), detail::tanh_inside(x), copysign(outside, x));
}

// Inside 1 the series of (x - tanh x) / x^3.
template <class U>
SINTER_HD Fine<U> minus_tanh(Fine<U> x) {
  using V = Fine<U>;
  const V a = abs(x), s = x * x;
  const V inside =
      x * (s * polynomial(s, 0.3333333315712852, -0.13333310694301367, 0.053963420834855814,
                          -0.021829584781957963, 0.008697949064690895, -0.003206950788301819,
                          0.0009236071980689423, -0.00014282337152043875));
  const V outside = fma(splat<V>(2), detail::half_of_one_minus_tanh(a), a - splat<V>(1));
  return select(a < splat<V>(1), inside, copysign(outside, x));
}

namespace detail {

// 2^-64 S(t) for S(t) = e^(t^2 / 2) P(N > t) and t in [0, 14.8]: a polynomial in
// w = (t - 3) / (t + 3) = 1 - 6 r over t + 3, r = 1 / (t + 3). What t + 3 loses comes back with the
// remainder 1 - r (t + 3), and what the last sum of the polynomial loses with the polynomial again.
template <class V>
SINTER_HD Twofold<V> tail_over_density(V t) {
  constexpr double k = scale_down;
  const V rough(Unit<V>::reciprocal((t + splat<V>(3)).value));
  const V rest = rough * fma(-rough, t, fma(splat<V>(-3), rough, splat<V>(1)));
  const V w = fma(splat<V>(-6), rest, fma(splat<V>(-6), rough, splat<V>(1)));
  const V c0 = splat<V>(k * 0.7290836903738868);
  const V slope =
      polynomial(w, k * -0.5093319914087928, k * 0.2300176995949873, k * -0.047262687875314874,
                 k * -0.010462515346246294, k * 0.006969308397719816, k * 0.0010247639037247512,
                 k * -0.0010325575342959152, k * -0.00024473824592671653,
                 k * 0.00013130534703099537, k * 5.447805016850283e-05);
  const V top = fma(w, slope, c0);
  const V high(Unit<V>::multiply(top.value, rough.value));
  const V low = fma(top, rest, fma(top, rough, -high));
  return {high, fma(fma(w, slope, c0 - top), rough, low)};
}

}  // namespace detail

// Beyond it the tail is 0 in float32.
template <class U>
SINTER_HD Fine<U> size_within_tail(Fine<U> x) {
  return min(abs(x), splat<Fine<U>>(14.8));
}

template <class U>
SINTER_HD Fine<U> times_normal_tail(Fine<U> a) {
  using V = Fine<U>;
  const auto [high, low] = detail::tail_over_density(a);
  const auto square = product(a, a);
  const auto density = detail::quick_power(-0.5, square.high, square.low);
  const V large = a * density.two_to_n;
  return fma(density.p, large * high, density.p * (large * low));
}

// S(t) - t / sqrt(2 pi) keeps its digits beside the root, where the two terms of the slope would
// each have been rounded.
template <class U>
SINTER_HD Fine<U> normal_tail_slope(Fine<U> a) {
  using V = Fine<U>;
  const auto [high, low] = detail::tail_over_density(a);
  const V inner = fma(a, splat<V>(detail::scale_down * -0.39894228040143267794), high) + low;
  const auto square = product(a, a);
  return detail::times(
      inner, detail::power<true>(splat<V>(-0.5) * square.high, splat<V>(-0.5) * square.low));
}

namespace detail {

// e^x as softplus_tanh needs it: from 20 on the gate is 1, and below -112 it has vanished.
template <class V>
SINTER_HD Power<V> mish_power(V x) {
  return power<true>(min(max(x, splat<V>(-112)), splat<V>(20)), splat<V>(0));
}

}  // namespace detail

// In e = e^x: n / (n + 2) with n = e (e + 2).
template <class U>
SINTER_HD Fine<U> softplus_tanh_gate(Fine<U> x) {
  using V = Fine<U>;
  const V down = splat<V>(detail::scale_down);
  const V scaled = detail::value(detail::mish_power(x));
  const V n = fma(scaled, scaled * down, scaled + scaled);
  const V sum = fma(n, down, splat<V>(2));
  const V factor = n * detail::reciprocal(sum, fma(n, down, splat<V>(2) - sum));
  return select(x < splat<V>(0), factor * x * down, factor * down * x);
}

// e w ((e + 2) + 4 x w (e + 1)) with w = 1 / (n + 2).
template <class U>
SINTER_HD Fine<U> softplus_tanh_gate_slope(Fine<U> x) {
  using V = Fine<U>;
  const V held = min(max(x, splat<V>(-112)), splat<V>(20));
  const V one = splat<V>(1), two = splat<V>(2);
  const auto power = detail::mish_power(x);
  const V scaled = detail::value(power), e = scaled * splat<V>(detail::scale_down);
  const V n = fma(e, e, e + e), sum = n + two, part = sum - n;
  const V w = detail::reciprocal(sum, (n - (sum - part)) + (two - part));
  const V change = splat<V>(4) * held * w;
  const auto inner = product(w, fma(e, change + one, change + two));
  return fma(inner.low, scaled, detail::times(inner.high, power)) * splat<V>(detail::scale_down);
}

}  // namespace sinter::math
