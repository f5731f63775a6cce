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

/// Bit i: whether element `first + element + i` is kept.
static __device__ __noinline__ std::uint32_t kept_of(const Mask& mask, std::uint64_t element) {
  const std::uint64_t index = mask.first + element;
  std::uint32_t bits = 0;
  if (mask.kind == Mask::Kind::triton) {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      bits |= math::triton_uniform(mask.seed, index + i) >= mask.p ? 1u << i : 0u;
    }
    return bits;
  }
  const math::DropoutMask drawn{
      .seed = mask.seed,
      .call = mask.call,
      .step = mask.live_step == nullptr ? mask.step : static_cast<std::uint32_t>(*mask.live_step)};
  const math::PhiloxWords words = drawn.group(index / 8);
  const auto place = static_cast<unsigned>(index % 8);
  const std::uint64_t low = words.word[0] | std::uint64_t{words.word[1]} << 32;
  const std::uint64_t high = words.word[2] | std::uint64_t{words.word[3]} << 32;
  // The four lanes, 16 bits each, from `place` on.
  std::uint64_t lanes = (place < 4 ? low : high) >> 16 * (place % 4);
  if (place % 4 != 0) {  // only where rows are no whole quads
    const std::uint64_t next = place < 4 ? high : [&] {
      const math::PhiloxWords more = drawn.group(index / 8 + 1);
      return more.word[0] | std::uint64_t{more.word[1]} << 32;
    }();
    lanes |= next << (64 - 16 * (place % 4));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits |= (static_cast<std::uint32_t>(lanes >> 16 * i) & 0xffffu) >= mask.threshold ? 1u << i : 0;
  }
  return bits;
}

__device__ __forceinline__ std::uint32_t kept(const Mask& mask, std::uint64_t element) {
  return mask.kind == Mask::Kind::none ? 0xfu : kept_of(mask, element);
}

}  // namespace sinter::cuda::tile
