#pragma once

// The vocabulary that formulas are written in, so that one text serves every V: float, double, and
// vectors of either (the vector extension of GCC and clang). Constants enter through splat, and
// branches through select, since the lanes of a vector cannot take different ones.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/simd.h>

namespace sinter::math {

namespace detail {

template <class V>
struct LanesOf {
  using type = std::remove_cvref_t<decltype(V{}[0])>;
  using bits = decltype(V{} < V{});  // a vector of signed integers
};
template <>
struct LanesOf<float> {
  using type = float;
  using bits = std::int32_t;
};
template <>
struct LanesOf<double> {
  using type = double;
  using bits = std::int64_t;
};

}  // namespace detail

// The type of one lane; the signed integer, or vector of integers, of the same size.
template <class V>
using Lane = typename detail::LanesOf<V>::type;
template <class V>
using Bits = typename detail::LanesOf<V>::bits;

template <class V>
inline constexpr int lanes = sizeof(V) / sizeof(Lane<V>);
template <class V>
inline constexpr bool is_float32 = sizeof(Lane<V>) == 4;

// Subtracting zero is an identity that the compiler sees; adding it is not (for -0).
template <class V>
SINTER_HD constexpr V splat(double value) {
  if constexpr (lanes<V> == 1) {
    return static_cast<V>(value);
  } else {
    return static_cast<Lane<V>>(value) - V{};
  }
}

// Both sides are evaluated, as a vector would: neither may trap, and only the chosen one counts.
template <class Condition, class V>
SINTER_HD constexpr V select(Condition condition, V chosen, V otherwise) {
  return condition ? chosen : otherwise;
}

// A NaN in the first argument comes through; the second must be a number. This is the order of
// operands in which x86 has the operation as one instruction.
template <class V>
SINTER_HD constexpr V min(V x, V bound) {
  if constexpr (lanes < V >> 1 && sizeof(V) == simd::register_bytes) {
    return simd::min(bound, x);
  } else {
    return select(bound < x, bound, x);
  }
}

template <class V>
SINTER_HD constexpr V max(V x, V bound) {
  if constexpr (lanes < V >> 1 && sizeof(V) == simd::register_bytes) {
    return simd::max(bound, x);
  } else {
    return select(x < bound, bound, x);
  }
}

// x - x is 0 for every number, NaN for an infinity; std::isfinite is not constexpr in C++20.
SINTER_HD constexpr bool finite(double x) { return x - x == 0; }

template <class V>
SINTER_HD constexpr V clamp(V x, double low, double high) {
  return min(max(x, splat<V>(low)), splat<V>(high));
}

// For results that come from comparisons, in which a NaN would otherwise be lost.
template <class V>
SINTER_HD constexpr V unless_nan(V x, V value) {
  return select(x != x, x, value);
}

template <class V>
SINTER_HD Bits<V> to_bits(V x) {
  return __builtin_bit_cast(Bits<V>, x);
}

template <class V>
SINTER_HD V from_bits(Bits<V> bits) {
  return __builtin_bit_cast(V, bits);
}

namespace detail {

template <class Signed>
struct UnsignedOf {
  using type =
      Vector<std::make_unsigned_t<std::remove_cvref_t<decltype(Signed{}[0])>>, sizeof(Signed)>;
};
template <class Signed>
requires std::is_integral_v<Signed>
struct UnsignedOf<Signed> : std::make_unsigned<Signed> {
};

}  // namespace detail

// Arithmetic on bits that wraps around: NaN and infinity reach it too. A right shift shifts zeros
// in, for which every instruction set has an instruction.
template <class Signed>
SINTER_HD Signed wrapping_plus(Signed a, Signed b) {
  using Unsigned = typename detail::UnsignedOf<Signed>::type;
  return __builtin_bit_cast(Signed,
                            __builtin_bit_cast(Unsigned, a) + __builtin_bit_cast(Unsigned, b));
}
template <class Signed>
SINTER_HD Signed wrapping_minus(Signed a, Signed b) {
  using Unsigned = typename detail::UnsignedOf<Signed>::type;
  return __builtin_bit_cast(Signed,
                            __builtin_bit_cast(Unsigned, a) - __builtin_bit_cast(Unsigned, b));
}
template <class Signed>
SINTER_HD Signed shift_right(Signed bits, int count) {
  using Unsigned = typename detail::UnsignedOf<Signed>::type;
  return __builtin_bit_cast(Signed, __builtin_bit_cast(Unsigned, bits) >> count);
}

namespace detail {

// A lane of Bits<V> with the sign bit of V set.
template <class V>
inline constexpr auto sign_bit =
    std::numeric_limits<std::conditional_t<is_float32<V>, std::int32_t, std::int64_t>>::min();

}  // namespace detail

template <class V>
SINTER_HD V abs(V x) {
  return from_bits<V>(to_bits(x) & ~detail::sign_bit<V>);
}

template <class V>
SINTER_HD V copysign(V x, V sign) {
  constexpr auto bit = detail::sign_bit<V>;
  return from_bits<V>((to_bits(x) & ~bit) | (to_bits(sign) & bit));
}

// c0 + c1 x + c2 x^2 + ...
template <class V>
SINTER_HD V polynomial(V, double c0) {
  return splat<V>(c0);
}
template <class V, class... More>
SINTER_HD V polynomial(V x, double c0, More... more) {
  return splat<V>(c0) + x * polynomial(x, more...);
}

}  // namespace sinter::math
