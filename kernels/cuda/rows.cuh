// What kernels that work row by row share: a warp for each row of few columns, a block for each of
// many.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <sinter/kernels/cuda/teams.cuh>
#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {

/// Threads of a block whose teams have so many.
template <int threads>
inline constexpr int row_block = threads == 32 ? 128 : threads;

/// Calls f with std::integral_constant of a team's threads.
template <class F>
void with_team(std::int64_t columns, F f) {
  constexpr std::int64_t most_for_a_warp = 1024;
  if (columns <= most_for_a_warp) {
    f(std::integral_constant<int, 32>{});
  } else {
    f(std::integral_constant<int, 256>{});
  }
}

/// e^(x - most). In float32 with what the difference loses by rounding, which would be an error of
/// up to 40 units.
template <class T>
__device__ float exp_below(float x, float most) {
  const float difference = x - most;
  const float y = expf(difference);
  if constexpr (sizeof(T) == 4) {
    const float back = difference - x;
    const float lost = (x - (difference - back)) - (most + back);
    return lost == lost ? fmaf(y, lost, y) : y;  // it is NaN beside an infinity
  } else {
    return y;
  }
}

}  // namespace sinter::cuda
