// What the kernels of batch norms know of a channel, and of what stands behind the norm.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/batch_norm.h>
#include <sinter/kernels/cuda/part.cuh>
#include <sinter/kernels/cuda/tile/activation.cuh>
#include <sinter/kernels/cuda/tile/dropout.cuh>

namespace sinter::cuda {

struct Channel {
  float mean, rstd, weight, bias;

  __device__ float normal(float x) const { return (x - mean) * rstd; }
  __device__ float z(float x) const { return fmaf(normal(x), weight, bias); }
};
template <class T>
__device__ Channel channel_of(const Normalising<T>& by, std::int64_t channel) {
  return {by.mean[channel], 1 / sqrtf(by.var[channel] + by.eps),
          by.weight == nullptr ? 1 : to_float(by.weight[channel]),
          by.bias == nullptr ? 0 : to_float(by.bias[channel])};
}

/// Activation and dropout, both chosen while the kernel runs.
struct Tail {
  tile::AnyParameters act;
  tile::Mask mask;
  bool from_z;  ///< the derivative is taken from the activation's input

  explicit Tail(const ops::ActivationArgs& args)
      : act(args.act), mask(args.dropout), from_z(args.act && math::needs_input(*args.act)) {}
};

template <class T, int count>
__device__ Part<T, count> load_or_zeros(const T* from, std::int64_t at) {
  return from == nullptr ? Part<T, count>{} : Part<T, count>::load_from(from + at);
}

/// Which of `count` elements from `at` on dropout keeps; see keeps().
template <int count>
__device__ __forceinline__ tile::KeptBits<(count + 3) / 4> kept_of(const Tail& tail,
                                                                   std::int64_t at) {
  constexpr int quads = (count + 3) / 4;
  tile::KeptBits<quads> kept(tail.mask);
  if (tail.mask.kind != tile::Mask::Kind::none) {
    const auto element = static_cast<std::uint64_t>(at);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      kept.prepare(q, element + 4 * q);
    }
    if constexpr (quads == 2) {
      kept.draw_pair(0, element);
    } else {
      kept.draw(0, element);
    }
  }
  return kept;
}
template <class Bits>
__device__ __forceinline__ bool keeps(const Bits& kept, int e) {
  return (kept[e / 4] >> (e % 4) & 1) != 0;
}

}  // namespace sinter::cuda
