#pragma once

// The parts of formulas.h for float16 and bfloat16: the GPU's own 2^x and 1/x, and polynomials only
// as long as a result of 11 or 8 digits needs them. Results are within 1 ulp of their type over all
// of its 65,536 inputs, its subnormals included.
//
// bfloat16 has the range of float32, where 2^x ends at 2^-126: what can become smaller is computed
// as the square of a root, or 2^24 too large. float16 ends long before.

#include <sinter/kernels/math/functions.h>
#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/scalar.h>

namespace sinter::math {

namespace detail {

inline constexpr double log2_e = 1.44269504088896340736;

template <class V>
inline constexpr bool is_float16 = false;
template <class U>
inline constexpr bool is_float16<Scalar<U, Grade::float16>> = true;

// 1 / (1 + e^-z); for bfloat16 as 2^-24 / (2^-24 + 2^-24 e^-z), whose sum stays below 2^126 until
// the result is below its smallest number.
template <class V>
SINTER_HD V inverse_of_one_plus_exp(V z) {
  if constexpr (is_float16<V>) {
    return reciprocal(exp2_of(z * splat<V>(-log2_e)) + splat<V>(1));
  } else {
    const V e = exp2_of(fma(z, splat<V>(-log2_e), splat<V>(-24)));
    return reciprocal(e + splat<V>(0x1p-24)) * splat<V>(0x1p-24);
  }
}

}  // namespace detail

template <class U, Grade G>
requires(G != Grade::float32) SINTER_HD Scalar<U, G> exp(Scalar<U, G> x) {
  using V = Scalar<U, G>;
  if constexpr (G == Grade::float16) {
    return exp2_of(x * splat<V>(detail::log2_e));
  } else {
    const V root = exp2_of(x * splat<V>(0.5 * detail::log2_e));
    return root * root;
  }
}

template <Coarse V>
SINTER_HD V log1p_exp_minus_abs(V scale, V x) {
  const V rate = scale * splat<V>(-detail::log2_e);
  if constexpr (detail::is_float16<V>) {
    const V e = exp2_of(rate * abs(x));
    return e * polynomial(e, 0.9999432719685666, -0.49697761826376496, 0.3063000041607481,
                          -0.15742573714889063, 0.04134657109666077);
  } else {  // in 2^24 e
    const V e = exp2_of(fma(rate, abs(x), splat<V>(24)));
    return e * polynomial(e, 0x1p-24 * 0.9996069954815874, 0x1p-48 * -0.4864136602554242,
                          0x1p-72 * 0.25402375400132954, 0x1p-96 * -0.07434227516205476);
  }
}
template <Coarse V>
SINTER_HD V log1p_exp_minus_abs(V z) {
  return log1p_exp_minus_abs(splat<V>(1), z);
}

template <Coarse V>
SINTER_HD V expm1_of_negative(V x) {
  const V e = exp2_of(x * splat<V>(detail::log2_e)) - splat<V>(1);
  return select(x > splat<V>(-0x1p-7), fma(splat<V>(0.5) * x, x, x), e);
}

template <class U, Grade G>
requires(G != Grade::float32) SINTER_HD Scalar<U, G> tanh(Scalar<U, G> x) {
  using V = Scalar<U, G>;
  if constexpr (G == Grade::float16) {
    const V e = exp2_of(x * splat<V>(2 * detail::log2_e));
    const V outside = fma(splat<V>(-2), reciprocal(e + splat<V>(1)), splat<V>(1));
    const V inside = fma(x * x * x, splat<V>(-1.0 / 3), x);
    return select(abs(x) < splat<V>(0.09), inside, outside);
  } else {
    return V(U::tanh(x.value));
  }
}

// Inside, a series of (x - tanh x) / x^3.
template <Coarse V>
SINTER_HD V minus_tanh(V x) {
  const V s = x * x;
  if constexpr (detail::is_float16<V>) {
    const V inside = x * s * polynomial(s, 0.3332806336186551, -0.1286267543812038);
    const V e = exp2_of(x * splat<V>(2 * detail::log2_e));
    const V outside = fma(splat<V>(2), reciprocal(e + splat<V>(1)), x - splat<V>(1));
    return select(abs(x) < splat<V>(0.3), inside, outside);
  } else {
    const V inside =
        x * s * polynomial(s, 0.33293280564287625, -0.12595138852891682, 0.03171086462266387);
    return select(abs(x) < splat<V>(1), inside, x - tanh(x));
  }
}

template <Coarse V>
SINTER_HD V logistic(V z) {
  return detail::inverse_of_one_plus_exp(z);
}

template <Coarse V>
SINTER_HD V sigmoid_gate(V x, V z) {
  return x * detail::inverse_of_one_plus_exp(z);
}

template <Coarse V>
SINTER_HD V sigmoid_gate_slope(V z, V p) {
  const V s = detail::inverse_of_one_plus_exp(z);
  return s * fma(p, splat<V>(1) - s, splat<V>(1));
}

namespace detail {

// P(N > a) as 2^polynomial. Exact: for a difference that cancels.
template <bool Exact, class V>
SINTER_HD V coarse_tail(V a) {
  if constexpr (is_float16<V>) {
    return exp2_of(polynomial(a, -1.0001025087167132, -1.1494319103351083, -0.46356446211330865,
                              -0.04865136491897076, 0.005950960019654099, -0.00033326471224972296));
  } else {
    V half;
    if constexpr (Exact) {
      half = polynomial(a, 0.5 * -1.0007530074654838, 0.5 * -1.143194197140995,
                        0.5 * -0.4725686996409384, 0.5 * -0.044606359854245894,
                        0.5 * 0.005505255968404643, 0.5 * -0.00042464474413720244,
                        0.5 * 1.8196846115665328e-05, 0.5 * -3.285606000067961e-07);
    } else {
      half = polynomial(a, 0.5 * -1.0026834611345592, 0.5 * -1.1274719297848623,
                        0.5 * -0.4930651755123308, 0.5 * -0.034737559819210714,
                        0.5 * 0.0032666413418462594, 0.5 * -0.00016595955276165722,
                        0.5 * 3.4569959982125165e-06);
    }
    const V root = exp2_of(half);
    return root * root;
  }
}

}  // namespace detail

// Where the tail is 0, and its polynomials have not turned back yet.
template <Coarse V>
SINTER_HD V size_within_tail(V x) {
  return min(abs(x), splat<V>(20));
}

template <Coarse V>
SINTER_HD V times_normal_tail(V a) {
  return a * detail::coarse_tail<false>(a);
}

template <Coarse V>
SINTER_HD V normal_tail_slope(V a) {
  const V density = exp(splat<V>(-0.5) * a * a);
  return fma(splat<V>(-0.39894228040143267794) * a, density, detail::coarse_tail<true>(a));
}

// In e = e^x, held where the result is x itself; for bfloat16 2^24 too large: see above.
template <Coarse V>
SINTER_HD V softplus_tanh_gate(V x) {
  const V held = min(x, splat<V>(20)), two = splat<V>(2);
  if constexpr (detail::is_float16<V>) {
    const V e = exp2_of(held * splat<V>(detail::log2_e));
    const V n = e * (e + two);
    return x * (n * reciprocal(n + two));
  } else {
    const V down = splat<V>(0x1p-24);
    const V scaled = exp2_of(fma(held, splat<V>(detail::log2_e), splat<V>(24)));
    const V n = scaled * fma(scaled, down, two);
    return x * (n * down * reciprocal(fma(n, down, two)));
  }
}

template <Coarse V>
SINTER_HD V softplus_tanh_gate_slope(V x) {
  const V held = min(x, splat<V>(20));
  const V scaled = exp2_of(fma(held, splat<V>(detail::log2_e), splat<V>(24)));
  const V e = scaled * splat<V>(0x1p-24);
  const V w = reciprocal(fma(e, e + splat<V>(2), splat<V>(2)));
  const V inner = fma(splat<V>(4) * held * w, e + splat<V>(1), e + splat<V>(2));
  return scaled * w * inner * splat<V>(0x1p-24);
}

}  // namespace sinter::math
