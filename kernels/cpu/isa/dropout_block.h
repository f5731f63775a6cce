#pragma once

// Masks in bulk, for CPU kernels: the same bits as DropoutMask::keep at a fraction of its cost, one
// Philox for eight elements and a whole vector of them at a time.

#include <bit>
#include <cstdint>
#include <cstring>

#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/philox.h>
#include <sinter/kernels/math/simd.h>

namespace sinter::math {

namespace detail {

constexpr int philox_width = simd::register_bytes / 8;

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
  using detail::philox_chains, detail::philox_width, simd::multiply_low_halves, simd::Words;
  const Words zero{};
  const Words m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u, low = zero + 0xffffffffu;
  for (int g = 0; g < n; g += philox_batch) {
    Words x0[philox_chains], x1[philox_chains], x2[philox_chains], x3[philox_chains];
    for (int k = 0; k < philox_chains; ++k) {
      x0[k] = simd::iota() + (first + static_cast<std::uint64_t>(g + k * philox_width));
      x1[k] = x0[k] >> 32;
      x2[k] = zero + c2;
      x3[k] = zero + c3;
    }
    PhiloxKey round_key = philox_key(key);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const Words key0 = zero + round_key.low, key1 = zero + round_key.high;
#pragma GCC unroll 4
      for (int k = 0; k < philox_chains; ++k) {
        const Words p0 = multiply_low_halves(x0[k], m0);
        const Words p1 = multiply_low_halves(x2[k], m1);
        x0[k] = (p1 >> 32) ^ x1[k] ^ key0;
        x2[k] = (p0 >> 32) ^ x3[k] ^ key1;
        x1[k] = p1;
        x3[k] = p0;
      }
      round_key = philox_next_key(round_key);
    }
    for (int k = 0; k < philox_chains; ++k) {
      const Words a = (x0[k] & low) | (x1[k] << 32), b = (x2[k] & low) | (x3[k] << 32);
      const Words pairs[] = {simd::interleave_left(a, b), simd::interleave_right(a, b)};
      std::memcpy(words + 16 * (g + k * philox_width), pairs, sizeof pairs);
    }
  }
}

// What decides about a run of up to `capacity` elements: element e of the run is kept iff
// lane[e] >= threshold.
struct LaneBlock {
  static constexpr int capacity = 1024;

  const std::uint16_t* lane;
  std::int32_t threshold;
  alignas(64) std::uint16_t room[capacity + 128];  // every copy's batches fit
};

namespace detail {

static_assert(8 * philox_batch <= 128);
static_assert(std::endian::native == std::endian::little, "lanes are read as uint16 in place");

SINTER_HOST_INLINE void draw_triton(const DropoutMask& mask, std::uint64_t first, int n,
                                    std::uint16_t* lane) {
  constexpr int block = 64;
  static_assert(block % philox_batch == 0);
  const auto p = static_cast<float>(mask.p);
  for (int begin = 0; begin < n; begin += block) {
    const int count = n - begin < block ? n - begin : block;
    alignas(64) std::uint32_t words[4 * block];
    philox_fill(first + static_cast<std::uint64_t>(begin), 0, 0, mask.seed, count,
                reinterpret_cast<unsigned char*>(words));
    // Whole batches, since vectors are read from there.
    for (int e = 0; e < (count + philox_batch - 1) / philox_batch * philox_batch; ++e) {
      lane[begin + e] = triton_uniform(words[4 * e]) >= p ? 1 : 0;
    }
  }
}

}  // namespace detail

// Fills `block` with the lanes of elements first ... first + n - 1, n <= LaneBlock::capacity: the
// decisions of mask.keep(). A mask that keeps or drops everything is nothing to draw. Cheapest on
// long runs: every call makes whole batches of counters.
SINTER_HOST_INLINE void draw_lanes(const DropoutMask& mask, std::uint64_t first, int n,
                                   LaneBlock& block) {
  if (mask.scheme == MaskScheme::lanes) {
    const int skip = static_cast<int>(first % 8);
    philox_fill(first / 8, mask.call, mask.step, mask.seed, (skip + n + 7) / 8,
                reinterpret_cast<unsigned char*>(block.room));
    block.lane = block.room + skip;
    block.threshold = static_cast<std::int32_t>(mask.threshold);
  } else {
    detail::draw_triton(mask, first, n, block.room);
    block.lane = block.room;
    block.threshold = 1;
  }
}

}  // namespace sinter::math
