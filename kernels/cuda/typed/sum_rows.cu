// Sums over rows, in an order that depends on their number only.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/vectors.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// A block sums a group of rows over 32 columns: thread (j, k) rows k, k + 8, ... in turn, then the
// eight sums of a column in turn.
constexpr int block_columns = 32;
constexpr int block_rows = 8;

template <class T>
__global__ void sum_groups(const T* x, std::int64_t rows, std::int64_t columns, float* partial) {
  __shared__ float sums[block_rows][block_columns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * block_columns + threadIdx.x;
  const std::int64_t top = blockIdx.y * rows_in_group;
  const std::int64_t bottom = top + rows_in_group < rows ? top + rows_in_group : rows;
  float sum = 0;
  if (column < columns) {
    for (std::int64_t row = top + threadIdx.y; row < bottom; row += block_rows) {
      sum += to_float(x[row * columns + column]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    for (int k = 1; k < block_rows; ++k) {
      sum += sums[k][threadIdx.x];
    }
    partial[blockIdx.y * columns + column] = sum;
  }
}

template <class T>
__global__ void sum_partial(const float* partial, std::int64_t groups, std::int64_t columns, T* y,
                            bool accumulate) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) {
    return;
  }
  float sum = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    sum += partial[group * columns + column];
  }
  y[column] = from_float<T>(accumulate ? to_float(y[column]) + sum : sum);
}

}  // namespace

template <class T>
void sum_rows(int device, const T* x, std::int64_t rows, std::int64_t columns, float* partial, T* y,
              bool accumulate) {
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
    sum_groups<<<dim3(across, static_cast<unsigned>(count)), dim3(block_columns, block_rows), 0,
                 stream>>>(x + begin * columns, rows - begin, columns, partial + done * columns);
    check(cudaGetLastError(), "sum_groups");
  }
  constexpr unsigned threads = 128;
  const auto blocks = static_cast<unsigned>((columns + threads - 1) / threads);
  sum_partial<<<blocks, threads, 0, stream>>>(partial, groups, columns, y, accumulate);
  check(cudaGetLastError(), "sum_partial");
}

template void sum_rows(int, const SINTER_STORAGE*, std::int64_t, std::int64_t, float*,
                       SINTER_STORAGE*, bool);

}  // namespace sinter::cuda
