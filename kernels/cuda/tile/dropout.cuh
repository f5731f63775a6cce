// Dropout masks for four neighbouring elements: the bits of math::DropoutMask.
#pragma once

#include <cstdint>

#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/ops.h>

namespace sinter::cuda::tile {

/// Elements from `first` on, as a kernel's argument.
struct Mask {
  enum class Kind : std::uint8_t { none, lanes, triton };

  Kind kind = Kind::none;
  std::uint32_t call = 0;
  std::uint32_t step = 0;
  std::uint32_t threshold = 0;
  float p = 0;
  float scale = 1;
  float unscale = 1;
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
  const std::int32_t* live_step = nullptr;  ///< or null: of `step`

  Mask() = default;
  explicit Mask(const ops::DropoutArgs& args)
      : kind(args.mask.is_identity()                        ? Kind::none
             : args.mask.scheme == math::MaskScheme::triton ? Kind::triton
                                                            : Kind::lanes),
        call(args.mask.call),
        step(args.mask.step),
        threshold(args.mask.threshold),
        p(static_cast<float>(args.mask.p)),
        scale(static_cast<float>(args.mask.scale())),
        unscale(static_cast<float>(args.mask.unscale())),
        seed(args.mask.seed),
        first(args.first),
        live_step(args.live_step.defined() ? args.live_step.raw<std::int32_t>() : nullptr) {}
};

namespace detail {

// A call, since it is rare and long.
static __device__ __noinline__ std::uint32_t triton_bits(std::uint64_t seed, float p,
                                                         std::uint64_t index) {
  std::uint32_t bits = 0;
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    bits |= math::triton_uniform(seed, index + i) >= p ? 1u << i : 0u;
  }
  return bits;
}

}  // namespace detail

/// Which elements of a thread's quads are kept: bit i of one is its element i. Most of the work is
/// arithmetic that wants to be done while operands are on their way, but what is called or loaded
/// for it wants to be over by then.
template <int quads>
class KeptBits {
 public:
  __device__ __forceinline__ explicit KeptBits(const Mask& mask)
      : mask_(mask),
        step_(mask.live_step == nullptr ? mask.step : static_cast<std::uint32_t>(*mask.live_step)) {
#pragma unroll
    for (std::uint32_t& bits : bits_) {
      bits = 0xfu;
    }
  }

  /// Before operands are on their way. `element`: the quad's first.
  __device__ __forceinline__ void prepare(int quad, std::uint64_t element) {
    if (mask_.kind == Mask::Kind::triton) {
      bits_[quad] = detail::triton_bits(mask_.seed, mask_.p, mask_.first + element);
    }
  }
  /// Meanwhile.
  __device__ __forceinline__ void draw(int quad, std::uint64_t element) {
    if (mask_.kind != Mask::Kind::lanes) {
      return;
    }
    const std::uint64_t index = mask_.first + element;
    const math::DropoutMask drawn{.seed = mask_.seed, .call = mask_.call, .step = step_};
    // Four lanes of 16 bits from `place` on, of one half of a group unless rows are no whole quads.
    const auto place = static_cast<unsigned>(index % 8);
    const unsigned shift = 16 * (place % 4);
    std::uint64_t lanes = 0;
#pragma unroll 1
    for (unsigned group = 0;; ++group) {
      const math::PhiloxWords words = drawn.group(index / 8 + group);
      const std::uint64_t low = words.word[0] | std::uint64_t{words.word[1]} << 32;
      const std::uint64_t high = words.word[2] | std::uint64_t{words.word[3]} << 32;
      if (group == 1) {
        lanes |= low << (64 - shift);
        break;
      }
      lanes = (place < 4 ? low : high) >> shift;
      if (shift == 0) {
        break;
      }
      if (place < 4) {
        lanes |= high << (64 - shift);
        break;
      }
    }
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t lane = static_cast<std::uint32_t>(lanes >> 16 * i) & 0xffffu;
      bits |= lane >= mask_.threshold ? 1u << i : 0;
    }
    bits_[quad] = bits;
  }

  /// Two quads side by side, of one draw where they are a group.
  __device__ __forceinline__ void draw_pair(int quad, std::uint64_t element) {
    const std::uint64_t index = mask_.first + element;
    if (mask_.kind != Mask::Kind::lanes || index % 8 != 0) {
      draw(quad, element);
      draw(quad + 1, element + 4);
      return;
    }
    const math::DropoutMask drawn{.seed = mask_.seed, .call = mask_.call, .step = step_};
    const math::PhiloxWords words = drawn.group(index / 8);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      std::uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t lane = words.word[2 * q + i / 2] >> (i % 2 * 16) & 0xffffu;
        bits |= lane >= mask_.threshold ? 1u << i : 0;
      }
      bits_[quad + q] = bits;
    }
  }

  __device__ __forceinline__ std::uint32_t operator[](int quad) const { return bits_[quad]; }

 private:
  const Mask& mask_;
  std::uint32_t step_;
  std::uint32_t bits_[quads];
};

}  // namespace sinter::cuda::tile
