// Running a formula over arrays, a vector at a time for float32, element by element for float64.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <sinter/kernels/math/vector.h>

namespace sinter::cpu::SINTER_CPU_PATH {

namespace simd = math::simd;

/// What a kernel for T holds in its hands at once.
template <class T>
using Lanes = std::conditional_t<std::is_same_v<T, float>, simd::Floats, double>;

/// How many of the lanes are there: all of them, or the first few at the end of an array.
struct All {};
struct First {
  std::int64_t count;
};

template <class V>
SINTER_HOST_INLINE V load(const math::Lane<V>* from, All) {
  V out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
template <class V>
SINTER_HOST_INLINE V load(const math::Lane<V>* from, First first) {
  if constexpr (std::is_same_v<V, simd::Floats>) {
    return simd::load_first(from, first.count);
  }
  V out{};
  std::memcpy(&out, from, static_cast<std::size_t>(first.count) * sizeof(math::Lane<V>));
  return out;
}
template <class V>
SINTER_HOST_INLINE void store(math::Lane<V>* to, V value, All) {
  std::memcpy(to, &value, sizeof value);
}
template <class V>
SINTER_HOST_INLINE void store(math::Lane<V>* to, V value, First first) {
  if constexpr (std::is_same_v<V, simd::Floats>) {
    simd::store_first(to, value, first.count);
    return;
  }
  std::memcpy(to, &value, static_cast<std::size_t>(first.count) * sizeof(math::Lane<V>));
}

/// Calls body(i, All) for i in steps of the lanes of V, then body(i, First) for what is left of n.
template <class V, class Body>
SINTER_HOST_INLINE void for_lanes(std::int64_t n, Body body) {
  constexpr std::int64_t step = math::lanes<V>;
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    body(i, All{});
  }
  if (step > 1 && i < n) {
    body(i, First{n - i});
  }
}

/// f(x) computed in double, rounded once.
template <class F>
SINTER_HOST_INLINE simd::Floats in_double(simd::Floats x, F f) {
  simd::HalfFloats half[2];
  std::memcpy(half, &x, sizeof x);
  half[0] = simd::narrow(f(simd::widen(half[0])));
  half[1] = simd::narrow(f(simd::widen(half[1])));
  std::memcpy(&x, half, sizeof x);
  return x;
}

}  // namespace sinter::cpu::SINTER_CPU_PATH
