#pragma once

// A float as a GPU computes with it. The units of a GPU that approximate 2^x and 1/x cost a tenth
// of the exact functions, and how much has to be done about their error depends on the type that a
// result is rounded to. So that type is part of the number's: formulas stay as they are written,
// and the parts they are made of (formulas.h) have a form for each grade, in fine.h and coarse.h.
//
// U gives the instructions, so that the same forms run in tests on a CPU:
//   exp2(x)        2^x to 2^-22, 0 where that is below 2^-126
//   reciprocal(x)  1 / x to 2^-23 for x from 2^-126 to 2^126
//   tanh(x)        to 2^-10.9
//   min, max       NaN where one argument is
//   multiply       a product that is rounded, never fused with a sum after it

#include <cmath>
#include <cstdint>

#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/vector.h>

namespace sinter::math {

// The storage type for which a number is computed well enough.
enum class Grade : std::uint8_t { float32, float16, bfloat16 };

template <class U, Grade G>
struct Scalar {
  float value;

  Scalar() = default;
  SINTER_HD constexpr explicit Scalar(float x) : value(x) {}
  SINTER_HD constexpr explicit Scalar(double x) : value(static_cast<float>(x)) {}

  friend SINTER_HD constexpr Scalar operator-(Scalar a) { return Scalar(-a.value); }
  friend SINTER_HD constexpr Scalar operator+(Scalar a, Scalar b) {
    return Scalar(a.value + b.value);
  }
  friend SINTER_HD constexpr Scalar operator-(Scalar a, Scalar b) {
    return Scalar(a.value - b.value);
  }
  friend SINTER_HD constexpr Scalar operator*(Scalar a, Scalar b) {
    return Scalar(a.value * b.value);
  }
  friend SINTER_HD constexpr bool operator<(Scalar a, Scalar b) { return a.value < b.value; }
  friend SINTER_HD constexpr bool operator<=(Scalar a, Scalar b) { return a.value <= b.value; }
  friend SINTER_HD constexpr bool operator>(Scalar a, Scalar b) { return a.value > b.value; }
  friend SINTER_HD constexpr bool operator>=(Scalar a, Scalar b) { return a.value >= b.value; }
  friend SINTER_HD constexpr bool operator==(Scalar a, Scalar b) { return a.value == b.value; }
  friend SINTER_HD constexpr bool operator!=(Scalar a, Scalar b) { return a.value != b.value; }
};

namespace detail {

template <class U, Grade G>
struct LanesOf<Scalar<U, G>> : LanesOf<float> {};

}  // namespace detail

template <class U>
using Fine = Scalar<U, Grade::float32>;

template <class V>
inline constexpr bool is_coarse = false;
template <class U, Grade G>
inline constexpr bool is_coarse<Scalar<U, G>> = G != Grade::float32;

// The forms of coarse.h take these.
template <class V>
concept Coarse = is_coarse<V>;

namespace detail {

template <class V>
struct UnitOf;
template <class U, Grade G>
struct UnitOf<Scalar<U, G>> {
  using type = U;
};

}  // namespace detail

template <class V>
using Unit = typename detail::UnitOf<V>::type;

template <class U, Grade G>
SINTER_HD Scalar<U, G> fma(Scalar<U, G> a, Scalar<U, G> b, Scalar<U, G> c) {
  return Scalar<U, G>(::fmaf(a.value, b.value, c.value));
}
template <class U, Grade G>
SINTER_HD Scalar<U, G> abs(Scalar<U, G> x) {
  return Scalar<U, G>(::fabsf(x.value));
}
template <class U, Grade G>
SINTER_HD Scalar<U, G> copysign(Scalar<U, G> x, Scalar<U, G> sign) {
  return Scalar<U, G>(::copysignf(x.value, sign.value));
}
template <class U, Grade G>
SINTER_HD Scalar<U, G> min(Scalar<U, G> x, Scalar<U, G> bound) {
  return Scalar<U, G>(U::min(x.value, bound.value));
}
template <class U, Grade G>
SINTER_HD Scalar<U, G> max(Scalar<U, G> x, Scalar<U, G> bound) {
  return Scalar<U, G>(U::max(x.value, bound.value));
}
template <class V>
requires requires { typename Unit<V>; }
SINTER_HD V exp2_of(V x) { return V(Unit<V>::exp2(x.value)); }
// 1 / x for x from 2^-126 to 2^126.
template <class V>
requires requires { typename Unit<V>; }
SINTER_HD V reciprocal(V x) {
  const V r(Unit<V>::reciprocal(x.value));
  if constexpr (is_coarse<V>) {
    return r;
  } else {
    return fma(r, fma(-x, r, splat<V>(1)), r);
  }
}

template <class U, Grade G>
SINTER_HD Scalar<U, G> polynomial(Scalar<U, G>, double c0) {
  return Scalar<U, G>(c0);
}
template <class U, Grade G, class... More>
SINTER_HD Scalar<U, G> polynomial(Scalar<U, G> x, double c0, More... more) {
  return fma(x, polynomial(x, more...), Scalar<U, G>(c0));
}

// By the reciprocal of b, for |b| from 2^-126 to 2^126, infinity and 0. In float32 within a little
// more than half an ulp, by the remainder of the first quotient.
template <class U, Grade G>
SINTER_HD Scalar<U, G> operator/(Scalar<U, G> a, Scalar<U, G> b) {
  using V = Scalar<U, G>;
  const V r(U::reciprocal(b.value));
  const V first = a * r;
  if constexpr (is_coarse<V>) {
    return first;
  } else {
    const V corrected = fma(fma(-first, b, a), r, first);
    return select(corrected == corrected, corrected, first);  // infinity has no remainder
  }
}

}  // namespace sinter::math
