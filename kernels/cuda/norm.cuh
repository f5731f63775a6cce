// What the kernels of norms know of the activation and the dropout behind the norm. These are done
// to one vector of a row after the other, read from a cache, since a switch over all activations
// must not stand in a kernel for each vector that a thread holds.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/kernels/cuda/tail.cuh>

namespace sinter::cuda {

/// The argument of a norm's kernel: a call, and what stands behind the norm.
template <class Call, bool has_tail>
struct NormTask : Call {};
template <class Call>
struct NormTask<Call, true> : Call {
  Tail tail;
};

/// z of a vector that lies at `column` of a row.
template <class T, class Call>
__device__ Vector<T> z_of(const Call& call, std::int64_t column, const Vector<T>& x, float mean,
                          float rstd) {
  Vector<T> w, b{}, z;
#pragma unroll
  for (float& value : w.value) {
    value = 1;
  }
  if (call.weight != nullptr) {
    w = load(call.weight + column);
  }
  if (call.bias != nullptr) {
    b = load(call.bias + column);
  }
#pragma unroll
  for (int e = 0; e < width<T>; ++e) {
    z.value[e] = fmaf((x.value[e] - mean) * rstd, w.value[e], b.value[e]);
  }
  return z;
}

template <bool has_tail, class Call>
auto norm_task(const Call& call, const ops::ActivationArgs& tail) {
  if constexpr (has_tail) {
    return NormTask<Call, true>{call, Tail(tail)};
  } else {
    return NormTask<Call, false>{call};
  }
}

}  // namespace sinter::cuda
