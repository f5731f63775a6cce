// Sums over rows, in an order that depends on their number only.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/vectors.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

constexpr int block_columns = 32;
constexpr int block_rows = 8;
// Of groups there are a few hundred: a wide block reads its columns of most of them at once.
constexpr int block_groups = 16;

// The sum of rows top to bottom - 1 of a column, of 32 in a block of `high` threads for each:
// thread (j, k) rows k, k + high, ... in turn, then thread (j, 0), which alone knows the result,
// their sums in turn.
template <int high, class T>
__device__ float sum_down(const T* x, std::int64_t top, std::int64_t bottom, std::int64_t columns,
                          std::int64_t column) {
  __shared__ float sums[high][block_columns];
  constexpr int at_once = 8;  // loads that do not wait for each other
  float sum = 0;
  if (column < columns) {
    for (std::int64_t first = top + threadIdx.y; first < bottom; first += at_once * high) {
      float value[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const std::int64_t row = first + i * high;
        value[i] = row < bottom ? to_float(x[row * columns + column]) : 0.0f;
      }
#pragma unroll
      for (const float v : value) {
        sum += v;
      }
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0) {
    for (int k = 1; k < high; ++k) {
      sum += sums[k][threadIdx.x];
    }
  }
  return sum;
}

__device__ std::int64_t my_column() {
  return static_cast<std::int64_t>(blockIdx.x) * block_columns + threadIdx.x;
}

template <class T>
__global__ void sum_rows_kernel(const T* x, std::int64_t rows, std::int64_t columns,
                                float* partial) {
  const std::int64_t column = my_column();
  const std::int64_t top = blockIdx.y * rows_in_group;
  const std::int64_t bottom = top + rows_in_group < rows ? top + rows_in_group : rows;
  const float sum = sum_down<block_rows>(x, top, bottom, columns, column);
  if (threadIdx.y == 0 && column < columns) {
    partial[blockIdx.y * columns + column] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(block_columns* block_groups)
    sum_groups_kernel(const GroupSums<T> a, const GroupSums<T> b, std::int64_t groups,
                      std::int64_t columns) {
  const bool is_first = blockIdx.y == 0;
  const std::int64_t column = my_column();
  const float sum =
      sum_down<block_groups>(is_first ? a.partial : b.partial, 0, groups, columns, column);
  if (threadIdx.y == 0 && column < columns) {
    T& y = (is_first ? a.y : b.y)[column];
    y = from_float<T>((is_first ? a.accumulate : b.accumulate) ? to_float(y) + sum : sum);
  }
}

}  // namespace

template <class T>
void sum_rows(int device, const T* x, std::int64_t rows, std::int64_t columns, float* partial) {
  if (columns == 0) {
    return;
  }
  const cudaStream_t stream = use(device);
  const std::int64_t groups = sum_rows_blocks(rows);
  const auto across = static_cast<unsigned>((columns + block_columns - 1) / block_columns);
  // A grid has at most 65,535 blocks in its second dimension.
  constexpr std::int64_t most = 65535;
  for (std::int64_t done = 0; done < groups; done += most) {
    const std::int64_t count = groups - done < most ? groups - done : most;
    const std::int64_t begin = done * rows_in_group;
    sum_rows_kernel<<<dim3(across, static_cast<unsigned>(count)), dim3(block_columns, block_rows),
                      0, stream>>>(x + begin * columns, rows - begin, columns,
                                   partial + done * columns);
    check(cudaGetLastError(), "sum_rows_kernel");
  }
}

template <class T>
void sum_groups(int device, const GroupSums<T>& a, const GroupSums<T>& b, std::int64_t groups,
                std::int64_t columns) {
  const bool is_one = a.y == nullptr || b.y == nullptr;
  const GroupSums<T>& first = a.y == nullptr ? b : a;
  if (columns == 0 || first.y == nullptr) {
    return;
  }
  const auto across = static_cast<unsigned>((columns + block_columns - 1) / block_columns);
  sum_groups_kernel<<<dim3(across, is_one ? 1 : 2), dim3(block_columns, block_groups), 0,
                      use(device)>>>(first, b, groups, columns);
  check(cudaGetLastError(), "sum_groups_kernel");
}

template void sum_rows(int, const SINTER_STORAGE*, std::int64_t, std::int64_t, float*);
template void sum_groups(int, const GroupSums<SINTER_STORAGE>&, const GroupSums<SINTER_STORAGE>&,
                         std::int64_t, std::int64_t);

}  // namespace sinter::cuda
