// The place of the largest of each row.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// An element and its place in the row.
struct Ranked {
  float value;
  std::int64_t place;
};

__device__ Ranked from_lane_xor(const Ranked& ranked, int mask) {
  return {__shfl_xor_sync(0xffffffffu, ranked.value, mask),
          __shfl_xor_sync(0xffffffffu, ranked.place, mask)};
}

// NaN before all numbers, then the larger one, then the first.
__device__ bool goes_before(const Ranked& a, const Ranked& b) {
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) {
    return a_is_nan;
  }
  return a.value > b.value || ((a_is_nan || a.value == b.value) && a.place < b.place);
}

template <class T, int threads>
__global__ void __launch_bounds__(row_block<threads>)
    argmax_kernel(const T* x, std::int64_t rows, std::int64_t columns, std::int64_t* y) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  x += row * columns;
  Ranked best{-INFINITY, columns};
  for (std::int64_t j = Team<threads>::rank(); j < columns; j += threads) {
    const Ranked next{to_float(x[j]), j};
    best = goes_before(next, best) ? next : best;
  }
  best = Team<threads>::all(
      best, [](const Ranked& a, const Ranked& b) { return goes_before(b, a) ? b : a; });
  if (Team<threads>::rank() == 0) {
    y[row] = best.place;
  }
}

}  // namespace

template <class T>
void argmax(int device, const T* x, std::int64_t rows, std::int64_t columns, std::int64_t* y) {
  if (rows == 0 || columns == 0) {
    return;
  }
  with_team(columns, [&]<int threads>(std::integral_constant<int, threads>) {
    argmax_kernel<T, threads>
        <<<blocks_of_teams<threads>(rows), row_block<threads>, 0, use(device)>>>(x, rows, columns,
                                                                                 y);
    check(cudaGetLastError(), "argmax_kernel");
  });
}

template void argmax(int, const SINTER_STORAGE*, std::int64_t, std::int64_t, std::int64_t*);

}  // namespace sinter::cuda
