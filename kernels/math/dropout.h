#pragma once

// Which elements dropout keeps: a pure function of (seed, call, step, element), so that no mask is
// ever stored and none depends on device, type, thread count or vector width.

#include <cassert>
#include <cstdint>

#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/philox.h>
#include <sinter/kernels/math/uniform.h>

namespace sinter::math {

// lanes:  one Philox for eight elements, a 16-bit lane each; p is rounded to a multiple of 2^-16.
// triton: tl.rand(seed, element) >= p in float32, to reproduce masks made by Triton kernels. `call`
//         and `step` play no part there: who wants other masks gives another seed, as in Triton.
enum class MaskScheme : std::uint8_t { lanes, triton };

struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint32_t call = 0;       // numbers the dropouts of one step
  std::uint32_t step = 0;       // a kernel may overwrite it from device memory
  std::uint32_t threshold = 0;  // lanes: an element is kept iff its lane is at least this, <= 65536
  MaskScheme scheme = MaskScheme::lanes;
  double p = 0;  // triton: an element is kept iff its uniform is at least the float32 of this

  SINTER_HD constexpr bool is_identity() const {
    return scheme == MaskScheme::lanes ? threshold == 0 : static_cast<float>(p) <= 0;
  }
  SINTER_HD constexpr bool drops_everything() const {
    return scheme == MaskScheme::lanes ? threshold >= 65536 : static_cast<float>(p) >= 1;
  }

  // What kept elements are multiplied by: one over the probability of keeping that is really used.
  // 0 where nothing is kept, so that the gradient is 0 as well.
  SINTER_HD constexpr double scale() const {
    if (drops_everything()) return 0;
    return scheme == MaskScheme::lanes ? 65536.0 / (65536 - threshold) : 1 / (1 - p);
  }

  // What undoes the scale: in the lanes scheme exact in every type that kernels compute in.
  SINTER_HD constexpr double unscale() const {
    if (drops_everything()) return 0;
    return scheme == MaskScheme::lanes ? (65536 - threshold) / 65536.0 : 1 - p;
  }

  // `element` is the logical index in the whole tensor, never one within a row or a shard.
  SINTER_HD constexpr bool keep(std::uint64_t element) const {
    if (scheme == MaskScheme::triton) {
      return triton_uniform(seed, element) >= static_cast<float>(p);
    }
    return lane(element) >= threshold;
  }

  SINTER_HD constexpr std::uint32_t lane(std::uint64_t element) const {
    const PhiloxWords words = group(element / 8);
    return words.word[element % 8 / 2] >> (16 * (element & 1)) & 0xffffu;
  }

  // The lanes of elements 8 * index ... 8 * index + 7, two to a word, the low half first.
  SINTER_HD constexpr PhiloxWords group(std::uint64_t index) const {
    return philox4x32(
        {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), call, step}},
        seed);
  }
};

// p in [0, 1]; whoever takes it from a user rejects others first. A p within 2^-17 of 0 or 1 (in
// the triton scheme: one whose float32 is 0 or 1) behaves as 0 or 1.
SINTER_HD constexpr DropoutMask dropout_mask(double p, std::uint64_t seed, std::uint32_t call,
                                             std::uint32_t step,
                                             MaskScheme scheme = MaskScheme::lanes) {
  assert(p >= 0 && p <= 1);
  // Rounded in two parts: adding 0.5 first would itself round up the number just below 0.5.
  const double scaled = p * 65536;
  const auto whole = static_cast<std::uint32_t>(scaled);
  const std::uint32_t threshold = whole + (scaled - whole >= 0.5 ? 1 : 0);
  return {seed, call, step, threshold, scheme, p};
}

}  // namespace sinter::math
