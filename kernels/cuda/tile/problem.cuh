// What the hosts' sides of the tile kernels share: how an operand lies, and how many tiles there
// are.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/tile/fragments.cuh>
#include <sinter/kernels/math/hd.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda::tile {

SINTER_HD constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

inline bool on_vectors(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

/// Rows of `stride` floats, whether each begins at a multiple of 16 bytes.
inline bool rows_on_vectors(const void* p, int stride) { return on_vectors(p) && stride % 4 == 0; }

/// A tensor of rows as an operand whose k or whose lines are its columns.
inline Matrix operand(const Tensor& rows, Major major) {
  const int count = static_cast<int>(rows.shape().rows());
  const int length = static_cast<int>(rows.shape().last());
  return major == Major::k ? Matrix{rows.raw<float>(), count, length, length}
                           : Matrix{rows.raw<float>(), length, count, length};
}

inline const float* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw<float>() : nullptr;
}
inline float* data_or_null(Tensor& tensor) {
  return tensor.defined() ? tensor.raw<float>() : nullptr;
}

}  // namespace sinter::cuda::tile
