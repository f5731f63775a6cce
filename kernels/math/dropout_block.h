#pragma once

// Masks in bulk, for CPU kernels: the same bits as DropoutMask::keep at a fraction of its cost, one
// Philox for eight elements and a whole vector of them at a time.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/philox.h>

namespace sinter::math {

namespace detail {

// This file differs from one instruction set to the next, so whatever has a name that a linker
// could merge stays out of it: functions are always inlined, constants have internal linkage.
//
// Philox lives on 32 x 32 -> 64 bit products. No compiler finds the instruction for a vector of
// them (g++ 12 makes three products and two shifts of it), hence the intrinsics, here and nowhere
// else.
#if defined(__AVX512F__)
constexpr int philox_width = 8;
typedef std::uint64_t PhiloxVector __attribute__((vector_size(64)));
SINTER_HOST_INLINE PhiloxVector philox_iota() { return PhiloxVector{0, 1, 2, 3, 4, 5, 6, 7}; }
SINTER_HOST_INLINE PhiloxVector interleave_left(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
SINTER_HOST_INLINE PhiloxVector interleave_right(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
SINTER_HOST_INLINE PhiloxVector multiply_low_halves(PhiloxVector a, PhiloxVector b) {
  return reinterpret_cast<PhiloxVector>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
#elif defined(__AVX2__)
constexpr int philox_width = 4;
typedef std::uint64_t PhiloxVector __attribute__((vector_size(32)));
SINTER_HOST_INLINE PhiloxVector philox_iota() { return PhiloxVector{0, 1, 2, 3}; }
SINTER_HOST_INLINE PhiloxVector interleave_left(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
SINTER_HOST_INLINE PhiloxVector interleave_right(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
SINTER_HOST_INLINE PhiloxVector multiply_low_halves(PhiloxVector a, PhiloxVector b) {
  return reinterpret_cast<PhiloxVector>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
#elif defined(__SSE2__)
constexpr int philox_width = 2;
typedef std::uint64_t PhiloxVector __attribute__((vector_size(16)));
SINTER_HOST_INLINE PhiloxVector philox_iota() { return PhiloxVector{0, 1}; }
SINTER_HOST_INLINE PhiloxVector interleave_left(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 0, 2);
}
SINTER_HOST_INLINE PhiloxVector interleave_right(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 1, 3);
}
SINTER_HOST_INLINE PhiloxVector multiply_low_halves(PhiloxVector a, PhiloxVector b) {
  return reinterpret_cast<PhiloxVector>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}
#else
constexpr int philox_width = 2;
typedef std::uint64_t PhiloxVector __attribute__((vector_size(16)));
SINTER_HOST_INLINE PhiloxVector philox_iota() { return PhiloxVector{0, 1}; }
SINTER_HOST_INLINE PhiloxVector interleave_left(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 0, 2);
}
SINTER_HOST_INLINE PhiloxVector interleave_right(PhiloxVector a, PhiloxVector b) {
  return __builtin_shufflevector(a, b, 1, 3);
}
SINTER_HOST_INLINE PhiloxVector multiply_low_halves(PhiloxVector a, PhiloxVector b) {
  return (a & 0xffffffffu) * (b & 0xffffffffu);
}
#endif

// A round waits for its product; this many independent vectors fill the wait.
constexpr int philox_chains = philox_width == 8 ? 2 : 4;

}  // namespace detail

// Counters are made in steps of this many, so that is what buffers must have room for.
constexpr int philox_batch = detail::philox_width * detail::philox_chains;

// Writes philox4x32((first + g low, first + g high, c2, c3), key) as 4 words at words + 16 * g
// bytes, for g below n rounded up to a multiple of philox_batch. The upper halves of the 64-bit
// lanes hold rubbish on the way: every product ignores them.
SINTER_HOST_INLINE void philox_fill(std::uint64_t first, std::uint32_t c2, std::uint32_t c3,
                                    std::uint64_t key, int n, unsigned char* words) {
  using detail::multiply_low_halves, detail::philox_chains, detail::philox_width;
  using Vector = detail::PhiloxVector;
  const Vector zero{};
  const Vector m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u, low = zero + 0xffffffffu;
  for (int g = 0; g < n; g += philox_batch) {
    Vector x0[philox_chains], x1[philox_chains], x2[philox_chains], x3[philox_chains];
    for (int k = 0; k < philox_chains; ++k) {
      x0[k] = detail::philox_iota() + (first + static_cast<std::uint64_t>(g + k * philox_width));
      x1[k] = x0[k] >> 32;
      x2[k] = zero + c2;
      x3[k] = zero + c3;
    }
    PhiloxKey round_key = philox_key(key);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const Vector key0 = zero + round_key.low, key1 = zero + round_key.high;
#pragma GCC unroll 4
      for (int k = 0; k < philox_chains; ++k) {
        const Vector p0 = multiply_low_halves(x0[k], m0);
        const Vector p1 = multiply_low_halves(x2[k], m1);
        x0[k] = (p1 >> 32) ^ x1[k] ^ key0;
        x2[k] = (p0 >> 32) ^ x3[k] ^ key1;
        x1[k] = p1;
        x3[k] = p0;
      }
      round_key = philox_next_key(round_key);
    }
    for (int k = 0; k < philox_chains; ++k) {
      const Vector a = (x0[k] & low) | (x1[k] << 32), b = (x2[k] & low) | (x3[k] << 32);
      const Vector pairs[] = {detail::interleave_left(a, b), detail::interleave_right(a, b)};
      std::memcpy(words + 16 * (g + k * philox_width), pairs, sizeof pairs);
    }
  }
}

namespace detail {

constexpr int block_counters = 64;
static_assert(block_counters % philox_batch == 0);
static_assert(std::endian::native == std::endian::little, "lanes are read as uint16 in place");

template <class Flag>
SINTER_HOST_INLINE void keep_lanes(const DropoutMask& mask, std::uint64_t first, std::size_t n,
                                   Flag* keep) {
  constexpr std::size_t block = 8 * block_counters;
  const auto threshold = static_cast<std::uint16_t>(mask.threshold);
  std::size_t skip = first % 8;
  std::uint64_t group = first / 8;
  while (n > 0) {
    const std::size_t count = n < block - skip ? n : block - skip;
    alignas(64) std::uint16_t lanes[block];
    philox_fill(group, mask.call, mask.step, mask.seed, static_cast<int>((skip + count + 7) / 8),
                reinterpret_cast<unsigned char*>(lanes));
    if (count == block) {  // a fixed number of turns is what g++ vectorises at -O2 too
      for (std::size_t e = 0; e < block; ++e) keep[e] = static_cast<Flag>(lanes[e] >= threshold);
    } else {
      for (std::size_t e = 0; e < count; ++e) {
        keep[e] = static_cast<Flag>(lanes[skip + e] >= threshold);
      }
    }
    keep += count;
    n -= count;
    group += block_counters;
    skip = 0;
  }
}

template <class Flag>
SINTER_HOST_INLINE void keep_triton(const DropoutMask& mask, std::uint64_t first, std::size_t n,
                                    Flag* keep) {
  constexpr std::size_t block = block_counters;
  const auto p = static_cast<float>(mask.p);
  while (n > 0) {
    const std::size_t count = n < block ? n : block;
    alignas(64) std::uint32_t words[4 * block];
    philox_fill(first, 0, 0, mask.seed, static_cast<int>(count),
                reinterpret_cast<unsigned char*>(words));
    for (std::size_t e = 0; e < count; ++e) {
      keep[e] = static_cast<Flag>(triton_uniform(words[4 * e]) >= p);
    }
    keep += count;
    n -= count;
    first += count;
  }
}

}  // namespace detail

// keep[e] = mask.keep(first + e), as 0 or 1, for e below n. Flag is uint8_t or uint16_t (or
// whatever else a kernel multiplies by). Cheapest on long runs: every call makes whole batches of
// counters.
template <class Flag>
SINTER_HOST_INLINE void keep_block(const DropoutMask& mask, std::uint64_t first, std::size_t n,
                                   Flag* keep) {
  if (mask.is_identity() || mask.drops_everything()) {
    const auto flag = static_cast<Flag>(mask.is_identity());
    for (std::size_t e = 0; e < n; ++e) keep[e] = flag;
  } else if (mask.scheme == MaskScheme::lanes) {
    detail::keep_lanes(mask, first, n, keep);
  } else {
    detail::keep_triton(mask, first, n, keep);
  }
}

}  // namespace sinter::math
