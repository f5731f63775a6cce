// What the kernels of batch norms know of a channel.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/batch_norm.h>
#include <sinter/kernels/cuda/part.cuh>
#include <sinter/kernels/cuda/tail.cuh>

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

template <class T, int count>
__device__ Part<T, count> load_or_zeros(const T* from, std::int64_t at) {
  return from == nullptr ? Part<T, count>{} : Part<T, count>::load_from(from + at);
}

}  // namespace sinter::cuda
