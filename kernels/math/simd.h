#pragma once

// The few vector instructions that no compiler finds by itself, for the instruction set that a copy
// of the CPU kernels is compiled for: minima, roots, conversions between types, and the 32 x 32 ->
// 64 bit products of Philox. The only file with intrinsics.
//
// What has a name that a linker could merge stays out of it, since it differs from one copy to
// the next: functions are always inlined, constants have internal linkage.

#include <cstdint>

#if defined(SINTER_CPU_PATH) && defined(__SSE2__)
#include <immintrin.h>
#endif

#include <sinter/kernels/math/hd.h>

namespace sinter::math {

namespace detail {

template <class T, int Bytes>
struct VectorType {
  typedef T type __attribute__((vector_size(Bytes)));
};

}  // namespace detail

// A vector of T of that many bytes.
template <class T, int Bytes>
using Vector = typename detail::VectorType<T, Bytes>::type;

namespace simd {

#if !defined(SINTER_CPU_PATH)

// Elsewhere than in those copies V is a scalar, and no vector fills a register: on a GPU, whose
// lanes are its threads, and in other people's programs, which this header is not to slow down.
constexpr int register_bytes = 0;
template <class V>
V min(V a, V b);
template <class V>
V max(V a, V b);
template <class V>
V sqrt(V x);

#else

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX2__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

// A register's worth of floats, doubles, 64-bit words; and the floats that become as many doubles.
using Floats = Vector<float, register_bytes>;
using Doubles = Vector<double, register_bytes>;
using Words = Vector<std::uint64_t, register_bytes>;
using HalfFloats = Vector<float, register_bytes / 2>;
// As many bytes as there are floats.
using Bytes = Vector<std::uint8_t, register_bytes / 4>;

// min(a, b) is b, and so is max(a, b), where either is NaN. The zero-masking forms, whose mask
// vanishes, spare us a warning about g++ 12's own headers.
#if defined(__AVX512F__)
SINTER_HOST_INLINE Floats min(Floats a, Floats b) { return _mm512_maskz_min_ps(0xffff, a, b); }
SINTER_HOST_INLINE Floats max(Floats a, Floats b) { return _mm512_maskz_max_ps(0xffff, a, b); }
SINTER_HOST_INLINE Doubles min(Doubles a, Doubles b) { return _mm512_maskz_min_pd(0xff, a, b); }
SINTER_HOST_INLINE Doubles max(Doubles a, Doubles b) { return _mm512_maskz_max_pd(0xff, a, b); }
SINTER_HOST_INLINE Floats sqrt(Floats x) { return _mm512_maskz_sqrt_ps(0xffff, x); }
SINTER_HOST_INLINE Doubles widen(HalfFloats x) { return _mm512_maskz_cvtps_pd(0xff, x); }
SINTER_HOST_INLINE HalfFloats narrow(Doubles x) { return _mm512_maskz_cvtpd_ps(0xff, x); }
SINTER_HOST_INLINE Floats to_floats(Bytes x) {
  const __m512i whole = _mm512_maskz_cvtepu8_epi32(0xffff, reinterpret_cast<__m128i>(x));
  return _mm512_maskz_cvtepi32_ps(0xffff, whole);
}
// The first `count` of a register's floats, 0 < count < all; the rest is loaded as 0.
SINTER_HOST_INLINE Floats load_first(const float* from, std::int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}
SINTER_HOST_INLINE void store_first(float* to, Floats x, std::int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), x);
}
SINTER_HOST_INLINE Words multiply_low_halves(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
SINTER_HOST_INLINE Words iota() { return Words{0, 1, 2, 3, 4, 5, 6, 7}; }
SINTER_HOST_INLINE Words interleave_left(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
SINTER_HOST_INLINE Words interleave_right(Words a, Words b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
#elif defined(__AVX2__)
SINTER_HOST_INLINE Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
SINTER_HOST_INLINE Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
SINTER_HOST_INLINE Doubles min(Doubles a, Doubles b) { return _mm256_min_pd(a, b); }
SINTER_HOST_INLINE Doubles max(Doubles a, Doubles b) { return _mm256_max_pd(a, b); }
SINTER_HOST_INLINE Floats sqrt(Floats x) { return _mm256_sqrt_ps(x); }
SINTER_HOST_INLINE Doubles widen(HalfFloats x) { return _mm256_cvtps_pd(x); }
SINTER_HOST_INLINE HalfFloats narrow(Doubles x) { return _mm256_cvtpd_ps(x); }
SINTER_HOST_INLINE Floats to_floats(Bytes x) {
  const __m128i eight = _mm_cvtsi64_si128(__builtin_bit_cast(long long, x));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
}
SINTER_HOST_INLINE __m256i first_lanes(std::int64_t count) {
  const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), iota);
}
SINTER_HOST_INLINE Floats load_first(const float* from, std::int64_t count) {
  return _mm256_maskload_ps(from, first_lanes(count));
}
SINTER_HOST_INLINE void store_first(float* to, Floats x, std::int64_t count) {
  _mm256_maskstore_ps(to, first_lanes(count), x);
}
SINTER_HOST_INLINE Words multiply_low_halves(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
SINTER_HOST_INLINE Words iota() { return Words{0, 1, 2, 3}; }
SINTER_HOST_INLINE Words interleave_left(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
SINTER_HOST_INLINE Words interleave_right(Words a, Words b) {
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
#else
#if defined(__SSE2__)
SINTER_HOST_INLINE Floats min(Floats a, Floats b) { return _mm_min_ps(a, b); }
SINTER_HOST_INLINE Floats max(Floats a, Floats b) { return _mm_max_ps(a, b); }
SINTER_HOST_INLINE Doubles min(Doubles a, Doubles b) { return _mm_min_pd(a, b); }
SINTER_HOST_INLINE Doubles max(Doubles a, Doubles b) { return _mm_max_pd(a, b); }
SINTER_HOST_INLINE Floats sqrt(Floats x) { return _mm_sqrt_ps(x); }
SINTER_HOST_INLINE Floats to_floats(Bytes x) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i four = _mm_cvtsi32_si128(__builtin_bit_cast(int, x));
  return _mm_cvtepi32_ps(_mm_unpacklo_epi16(_mm_unpacklo_epi8(four, zero), zero));
}
SINTER_HOST_INLINE Words multiply_low_halves(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}
#else
template <class V>
SINTER_HOST_INLINE V min(V a, V b) {
  return a < b ? a : b;
}
template <class V>
SINTER_HOST_INLINE V max(V a, V b) {
  return a > b ? a : b;
}
SINTER_HOST_INLINE Floats sqrt(Floats x) {
  for (unsigned i = 0; i < register_bytes / sizeof(float); ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
SINTER_HOST_INLINE Floats to_floats(Bytes x) { return __builtin_convertvector(x, Floats); }
SINTER_HOST_INLINE Words multiply_low_halves(Words a, Words b) {
  return (a & 0xffffffffu) * (b & 0xffffffffu);
}
#endif
SINTER_HOST_INLINE Floats load_first(const float* from, std::int64_t count) {
  Floats out{};
  for (std::int64_t i = 0; i < count; ++i) out[i] = from[i];
  return out;
}
SINTER_HOST_INLINE void store_first(float* to, Floats x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = x[i];
}
SINTER_HOST_INLINE Doubles widen(HalfFloats x) { return __builtin_convertvector(x, Doubles); }
SINTER_HOST_INLINE HalfFloats narrow(Doubles x) { return __builtin_convertvector(x, HalfFloats); }
SINTER_HOST_INLINE Words iota() { return Words{0, 1}; }
SINTER_HOST_INLINE Words interleave_left(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 2);
}
SINTER_HOST_INLINE Words interleave_right(Words a, Words b) {
  return __builtin_shufflevector(a, b, 1, 3);
}
#endif

#endif  // SINTER_CPU_PATH

}  // namespace simd
}  // namespace sinter::math
