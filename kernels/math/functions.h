#pragma once

// The elementary functions of formulas. For float and vectors of floats they are polynomials within
// 1.5 ulp: NaN gives NaN, the limits at the ends and signed zeros are right, and subnormals are
// neither flushed nor lost. For double, and in part for a single float, they are the C library's. A
// vector of doubles computes what will be rounded to float32, so its functions keep 2^-32 relative,
// which costs half of what full float64 would, and their ends are right once rounded: e^-infinity
// is 1e-304.
//
// Coefficients are minimax fits (Lawson's iteration on a Chebyshev grid, in 40 digits), made by
// kernels/math/fit.py.
//
// Their names are those of <math.h>: a using-directive for this namespace at global scope makes
// every plain sqrt(2.0) ambiguous, in CUDA's own headers too.

#include <math.h>

#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/vector.h>

namespace sinter::math {

SINTER_HD float sqrt(float x) { return ::sqrtf(x); }
SINTER_HD double sqrt(double x) { return ::sqrt(x); }
template <class V>
requires(lanes<V> > 1) SINTER_HD V sqrt(V x) { return simd::sqrt(x); }
SINTER_HD double exp(double x) { return ::exp(x); }
SINTER_HD double log(double x) { return ::log(x); }
SINTER_HD double expm1(double x) { return ::expm1(x); }
SINTER_HD double log1p(double x) { return ::log1p(x); }
SINTER_HD double tanh(double x) { return ::tanh(x); }
SINTER_HD double erf(double x) { return ::erf(x); }
SINTER_HD double erfc(double x) { return ::erfc(x); }
SINTER_HD float erfc(float x) { return ::erfcf(x); }

namespace detail {

// Adding `rounder` to a number below 2^22 (2^51) rounds it to an integer, which is then in the low
// bits of the sum.
template <class V>
inline constexpr double rounder = is_float32<V> ? 0x1.8p23 : 0x1.8p52;
template <class V>
inline constexpr int fraction_bits = is_float32<V> ? 23 : 52;
template <class V>
inline constexpr int exponent_bias = is_float32<V> ? 127 : 1023;

template <class V>
SINTER_HD Bits<V> rounder_bits() {
  return to_bits(splat<V>(rounder<V>));
}

// 2^n for the exponents of normal numbers.
template <class V>
SINTER_HD V power_of_two(Bits<V> n) {
  return from_bits<V>((n + exponent_bias<V>) << fraction_bits<V>);
}

// ln 2 in two parts, of which n times the first is exact for the n of a float32.
inline constexpr double ln2_high = 0x1.62e4p-1;
inline constexpr double ln2_low = 1.42860682030941723212e-6;

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
template <class V>
SINTER_HD V exp_tail(V r) {
  if constexpr (is_float32<V>) {
    return polynomial(r, 0.5000000082751609, 0.16666666867540586, 0.041666253754730584,
                      0.008333262642767484, 0.001394722497400359, 0.00019919377574780794);
  } else {
    return polynomial(r, 0.4999999999948009, 0.1666666679395593, 0.04166666707783134,
                      0.008333279171487764, 0.0013888792700878412, 0.00019910601370331369,
                      2.4889325928497985e-05);
  }
}

// e^x = 2^n (1 + q), |x| < 1000 (float32: 105).
template <class V>
struct Exponential {
  V q;
  Bits<V> n;
};

template <class V>
SINTER_HD Exponential<V> split_exp(V x) {
  const V shifted = x * splat<V>(1.44269504088896340736) + splat<V>(rounder<V>);
  const V n = shifted - splat<V>(rounder<V>);
  const V high = x - n * splat<V>(ln2_high);
  const V low = n * splat<V>(ln2_low);
  const V r = high - low;
  V lost = splat<V>(0);  // in the rounding of r
  if constexpr (is_float32<V>) {
    lost = (high - r) - low;
  }
  return {r + (r * r * exp_tail(r) + lost), wrapping_minus(to_bits(shifted), rounder_bits<V>())};
}

// log(2^k (1 + f)) for |f| < 0.42, by log((1 + s) / (1 - s)) = 2 s + s R(s^2) with s = f / (2 + f);
// f itself, which is exact, enters last (the arrangement of fdlibm's log).
template <class V>
SINTER_HD V log_of_parts(V k, V f) {
  const V s = f / (splat<V>(2) + f);
  const V z = s * s;
  V tail;  // R(z) / z
  if constexpr (is_float32<V>) {
    tail = polynomial(z, 0.6666677648938417, 0.39977526864898066, 0.2987215709021612);
  } else {
    tail = polynomial(z, 0.6666666667586179, 0.39999995598821075, 0.28572111826037155,
                      0.22176068362620985, 0.19586003073096897);
  }
  const V half_square = splat<V>(0.5) * f * f;
  const V inner = s * (half_square + z * tail) + k * splat<V>(ln2_low);
  return k * splat<V>(ln2_high) - ((half_square - inner) - f);
}

// x = 2^k m with m in [sqrt(1/2), sqrt(2)); x is normal.
template <class V>
SINTER_HD Bits<V> exponent_of(V x) {
  const Bits<V> offset = to_bits(splat<V>(1)) - to_bits(splat<V>(0.70710678118654752440));
  return shift_right(wrapping_plus(to_bits(x), offset), fraction_bits<V>) - exponent_bias<V>;
}

template <class V>
SINTER_HD V mantissa(V x, Bits<V> k) {
  return from_bits<V>(wrapping_minus(to_bits(x), k << fraction_bits<V>));
}

// k as a floating number.
template <class V>
SINTER_HD V to_floating(Bits<V> k) {
  return from_bits<V>(k + rounder_bits<V>()) - splat<V>(rounder<V>);
}

}  // namespace detail

// What the functions below take: all of V but the scalar double.
template <class V>
concept Fitted = is_float32<V> ||(lanes<V> > 1);

// Where the caller knows that the result is a normal number: |x| <= 700 (float32: 87).
template <Fitted V>
SINTER_HD V exp_of_bounded(V x) {
  const auto [q, n] = detail::split_exp(x);
  const V scale = detail::power_of_two<V>(n);
  return scale + scale * q;
}

template <Fitted V>
SINTER_HD V exp(V x) {
  if constexpr (is_float32<V>) {
    // Scaled in two steps, for a result that is subnormal or overflows.
    const auto [q, n] = detail::split_exp(clamp(x, -104, 89));
    const Bits<V> half = n >> 1;
    return (splat<V>(1) + q) * detail::power_of_two<V>(half) * detail::power_of_two<V>(n - half);
  } else {
    return exp_of_bounded(clamp(x, -700, 700));
  }
}

template <Fitted V>
SINTER_HD V expm1(V x) {
  // Computed at half its size, since 2^128 is no float32.
  const auto [q, n] = detail::split_exp(clamp(x, -30, is_float32<V> ? 89 : 700));
  const V half = detail::power_of_two<V>(n - 1);
  const V halved = half * q + (half - splat<V>(0.5));
  return copysign(halved + halved, x);  // for -0
}

template <Fitted V>
SINTER_HD V log(V x) {
  const auto tiny = x < splat<V>(is_float32<V> ? 0x1p-126 : 0x1p-1022);
  const V scaled = select(tiny, x * splat<V>(0x1p60), x);
  const Bits<V> k = detail::exponent_of(scaled);
  const V f = detail::mantissa(scaled, k) - splat<V>(1);
  const V shift = select(tiny, splat<V>(60), splat<V>(0));
  const V y = detail::log_of_parts(detail::to_floating<V>(k) - shift, f);
  const V infinity = splat<V>(__builtin_inf());
  const V on_the_edge = select(x == splat<V>(0), -infinity, splat<V>(__builtin_nan("")));
  return select(x > splat<V>(0) && x < infinity, y, select(x == infinity, x, on_the_edge));
}

template <Fitted V>
SINTER_HD V log1p(V x) {
  const V one = splat<V>(1);
  const V sum = one + x;
  // What the sum lost, exactly.
  const V lost = select(x < one, x - (sum - one), one - (sum - x));
  const Bits<V> k = detail::exponent_of(sum);
  const Bits<V> half = k >> 1;  // in two steps, since k may be 128
  const V rest = lost * detail::power_of_two<V>(-half) * detail::power_of_two<V>(half - k);
  const V y =
      detail::log_of_parts(detail::to_floating<V>(k), (detail::mantissa(sum, k) - one) + rest);
  const V infinity = splat<V>(__builtin_inf());
  const V on_the_edge = select(x == -one, -infinity, splat<V>(__builtin_nan("")));
  return select(x > -one && x < infinity, copysign(y, x), select(x == infinity, x, on_the_edge));
}

// log1p(x) for x in [0, 1], by log((1 + s) / (1 - s)).
SINTER_HD double log1p_of_fraction(double x) { return ::log1p(x); }
template <Fitted V>
SINTER_HD V log1p_of_fraction(V x) {
  if constexpr (is_float32<V>) {
    return log1p(x);
  } else {
    const V s = x / (splat<V>(2) + x);
    return s * polynomial(s * s, 1.99999999979889, 0.6666667948387838, 0.39998678208107785,
                          0.2862104185596915, 0.21389963076252871, 0.2442489976537014);
  }
}

namespace detail {

// Within |x| < 0.625.
template <class V>
SINTER_HD V tanh_inside(V x) {
  const V s = x * x;
  return x + x * s *
                 polynomial(s, -0.33333283923587925, 0.13331491248450347, -0.05374349525666445,
                            0.020650578989852217, -0.005717036547120454);
}

}  // namespace detail

template <Fitted V>
SINTER_HD V tanh(V x) {
  const V a = abs(x);
  if constexpr (is_float32<V>) {
    const V twice = min(a + a, splat<V>(40));  // from 18 on the result is 1
    const V outside = splat<V>(1) - splat<V>(2) / (exp_of_bounded(twice) + splat<V>(1));
    return copysign(select(a < splat<V>(0.625), detail::tanh_inside(x), outside), x);
  } else {
    const V e = expm1(splat<V>(-2) * a);
    return copysign(-e / (splat<V>(2) + e), x);
  }
}

// Inside 1 an odd polynomial, outside 1 - exp(polynomial).
template <Fitted V>
requires(is_float32<V>) SINTER_HD V erf(V x) {
  const V a = abs(x), s = x * x;
  const V inside =
      x + x * polynomial(s, 0.12837916591375137, -0.37612627135965593, 0.11283600176253836,
                         -0.026854444591757978, 0.005189535339057597, -0.0008020841277286543,
                         7.889119523575832e-05);
  const V log_of_rest = polynomial(
      min(a, splat<V>(4)), -0.00034151295332485176, -1.1270892322592265, -0.6381447607663628,
      -0.10310681904979144, 0.021838095823300076, -0.002947666501554182, 0.0001863800532556477);
  return copysign(select(a < splat<V>(1), inside, splat<V>(1) - exp_of_bounded(log_of_rest)), x);
}

// e^(a^2 / 2) P(N > a) for a standard normal N and a in [0, 14.8], where a float32 tail ends, and
// of the right size beyond. A quotient of polynomials whose terms are all positive never cancels.
template <Fitted V>
requires(!is_float32<V>) SINTER_HD V scaled_normal_tail(V a) {
  const V top = polynomial(a, 0.4999999999697536, 0.512429962253962, 0.25493163174919153,
                           0.07315584900906008, 0.012059644483353393, 0.0009327334691188084);
  const V bottom = polynomial(a, 1, 1.822744477951068, 1.4642030671582655, 0.6691651839873368,
                              0.18571693383680188, 0.03022890773554249, 0.0023380180077070874);
  return top / bottom;
}

}  // namespace sinter::math
