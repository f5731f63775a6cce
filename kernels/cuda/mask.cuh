// Dropout masks on a GPU: the bits of math::DropoutMask, eight elements at a time. What Philox does
// with words that are the same for all elements of a launch (call, step, key) the host has done.
#pragma once

#include <cstdint>
#include <string_view>

#include <sinter/kernels/cuda/vectors.cuh>
#include <sinter/kernels/math/dropout.h>

namespace sinter::cuda {

// A mask says how it is called, whether its passes are worth a second launch shape, and whether it
// drops anything at all. It is made of what the launch draws, its first element, and, in a captured
// graph, where the step is by the time that it runs. A thread calls begin() once, and hands the
// result to group().

/// The lanes of eight elements, two to a word, the low half first: kept iff at least the threshold.
using Lanes = math::PhiloxWords;

/// No mask: every element is kept, and there is no random number in the instruction stream.
struct NoMask {
  static constexpr std::string_view name = "no mask";
  static constexpr bool tuned = true;
  static constexpr bool drops = false;
  NoMask(const math::DropoutMask&, std::uint64_t, const std::uint32_t*) {}
  struct Begun {};
  __device__ Begun begin() const { return {}; }
};

/// MaskScheme::lanes, for element indices whose groups of eight share the upper 32 bits.
struct LanesMask {
  static constexpr std::string_view name = "lanes";
  static constexpr bool tuned = true;
  static constexpr bool drops = true;

  // Philox (kernels/math/philox.h) on the counter (g, high, call, step): the first two rounds, as
  // far as they do not depend on g. Word 0 of round 1 and its product with the multiplier of word 0
  // are constant, as is word 1.
  std::uint32_t after_one;      // round 1, word 2: this ^ hi(m0 g); the step is in nothing else
  std::uint32_t after_two_0;    // round 2, word 0: this ^ hi(m1 w2)
  std::uint32_t after_two_2;    // round 2, word 2: this ^ lo(m0 g)
  std::uint32_t after_three_2;  // round 3, word 2: this ^ hi(m0 w0)
  math::PhiloxKey key[10];
  std::uint32_t threshold_high;  // in the upper half of a word
  std::uint32_t base;            // low 32 bits of the first element's group
  const std::uint32_t* live;     // or null: the step, which after_one then lacks

  /// `first`: the index of the launch's first element; the mask drops some elements, not all.
  LanesMask(const math::DropoutMask& mask, std::uint64_t first, const std::uint32_t* live_step)
      : threshold_high(mask.threshold << 16),
        base(static_cast<std::uint32_t>(first / 8)),
        live(live_step) {
    math::PhiloxKey k = math::philox_key(mask.seed);
    for (math::PhiloxKey& round : key) {
      round = k;
      k = math::philox_next_key(k);
    }
    const auto high = static_cast<std::uint32_t>(first / 8 >> 32);
    // With g = 0 the products of g vanish, and a round gives what the others are combined with.
    const std::uint32_t step = live == nullptr ? mask.step : 0;
    const math::PhiloxWords one = math::philox_round({{0, high, mask.call, step}}, key[0]);
    const math::PhiloxWords two = math::philox_round({{one.word[0], one.word[1], 0, 0}}, key[1]);
    after_one = one.word[2];
    after_two_0 = two.word[0];
    after_two_2 = two.word[2];
    after_three_2 = two.word[3] ^ key[2].high;
  }

  /// after_one with its step.
  struct Begun {
    std::uint32_t after_one;
  };
  __device__ Begun begin() const { return {live == nullptr ? after_one : after_one ^ *live}; }

  /// The lanes of group `g`, counted from the launch's first.
  __device__ Lanes group(Begun begun, std::uint32_t g) const {
    constexpr std::uint64_t m0 = 0xD2511F53u, m1 = 0xCD9E8D57u;
    const std::uint64_t p = m0 * (base + g);
    const std::uint64_t q = m1 * (begun.after_one ^ static_cast<std::uint32_t>(p >> 32));
    const std::uint32_t w0 = after_two_0 ^ static_cast<std::uint32_t>(q >> 32);
    const std::uint32_t w2 = after_two_2 ^ static_cast<std::uint32_t>(p);
    const std::uint64_t r = m0 * w0, s = m1 * w2;
    Lanes words{{static_cast<std::uint32_t>(s >> 32) ^ static_cast<std::uint32_t>(q) ^ key[2].low,
                 static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(r >> 32) ^ after_three_2,
                 static_cast<std::uint32_t>(r)}};
#pragma unroll
    for (int round = 3; round < 10; ++round) {
      words = math::philox_round(words, key[round]);
    }
    return words;
  }

  __device__ bool keeps_low(std::uint32_t word) const { return word << 16 >= threshold_high; }
  __device__ bool keeps_high(std::uint32_t word) const { return word >= threshold_high; }
};

/// MaskScheme::triton: a Philox for each element, to reproduce masks of Triton kernels.
struct TritonMask {
  static constexpr std::string_view name = "triton";
  static constexpr bool tuned = false;
  static constexpr bool drops = true;

  std::uint64_t seed;
  std::uint64_t base;
  float p;

  /// Steps have no part in these masks.
  TritonMask(const math::DropoutMask& mask, std::uint64_t first, const std::uint32_t*)
      : seed(mask.seed), base(first / 8 * 8), p(static_cast<float>(mask.p)) {}

  struct Begun {};
  __device__ Begun begin() const { return {}; }

  __device__ Lanes group(Begun, std::uint32_t g) const {
    Lanes words;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t element = base + std::uint64_t{8} * g + 2 * i;
      const bool low = math::triton_uniform(seed, element) >= p;
      const bool high = math::triton_uniform(seed, element + 1) >= p;
      const std::uint32_t word = (low ? 0xffffu : 0u) | (high ? 0xffff0000u : 0u);
      words.word[0] = i == 0 ? word : words.word[0];
      words.word[1] = i == 1 ? word : words.word[1];
      words.word[2] = i == 2 ? word : words.word[2];
      words.word[3] = i == 3 ? word : words.word[3];
    }
    return words;
  }

  __device__ bool keeps_low(std::uint32_t word) const { return (word & 0xffffu) != 0; }
  __device__ bool keeps_high(std::uint32_t word) const { return word >> 16 != 0; }
};

/// The words of a mask for the vectors of one thread: width / 2 words each.
template <class T>
struct VectorLanes {
  std::uint32_t word[8 / width<T>][width<T> / 2];
};

/// A vector of a 16-bit type is one group of eight. A vector of floats is half a group, and threads
/// that own whole groups would read memory with gaps: so of so many threads number t takes vectors
/// t and t + threads, and draws one group for the pair of threads that shares it, the even one that
/// of the first vectors, the odd one that of the second. By all lanes of a warp; `group`: of vector
/// 0.
template <class T, int threads, class Mask>
__device__ VectorLanes<T> lanes_of(const Mask& mask, typename Mask::Begun begun,
                                   std::uint32_t group, unsigned t) {
  VectorLanes<T> lanes;
  if constexpr (width<T> == 8) {
    const Lanes drawn = mask.group(begun, group + t);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      lanes.word[0][i] = drawn.word[i];
    }
  } else {
    const bool odd = (t & 1) != 0;
    const Lanes drawn = mask.group(begun, group + (odd ? threads / 2 : 0) + t / 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t theirs = odd ? drawn.word[i] : drawn.word[2 + i];
      const std::uint32_t received = __shfl_xor_sync(0xffffffffu, theirs, 1);
      lanes.word[0][i] = odd ? received : drawn.word[i];
      lanes.word[1][i] = odd ? drawn.word[2 + i] : received;
    }
  }
  return lanes;
}

}  // namespace sinter::cuda
