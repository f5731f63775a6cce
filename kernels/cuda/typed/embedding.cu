// The gradient of an embedding's weight, without atomics: a block owns some rows of a strip of
// columns, goes through all indices, and adds up what is its own, in order and in float64, as the
// CPU does.
#include <sinter/kernels/cuda/integers.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/vectors.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int rounds = 8;                // indices that a thread reads at a time
constexpr int chunk = threads * rounds;  // and a block
constexpr int sums_of_block = 16 * threads;
constexpr int ahead = 4;  // rows of dy on their way

// A use of a row of the block's: where in the chunk, and of which row.
static_assert(sums_of_block <= 1 << 12 && chunk <= 1 << 16);
struct Use {
  std::uint32_t packed;
  __device__ static Use of(int row, int place) {
    return {static_cast<std::uint32_t>(row) << 16 | static_cast<std::uint32_t>(place)};
  }
  __device__ int row() const { return static_cast<int>(packed >> 16); }
  __device__ int place() const { return static_cast<int>(packed & 0xffffu); }
};

// Lists the uses among the indices [begin, begin + chunk) of the block's rows, in order. For all
// threads of the block.
template <class T>
__device__ int list_uses(const EmbeddingBackward<T>& call, std::int64_t begin,
                         std::int64_t first_row, std::int64_t rows, Use* uses) {
  __shared__ int of_warp[warps];
  const IntegerValues indices{call.indices};
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int row[rounds];
  unsigned found[rounds];
  int count = 0;
#pragma unroll
  for (int k = 0; k < rounds; ++k) {
    const std::int64_t i = begin + (warp * rounds + k) * 32 + lane;
    const std::int64_t index = i < call.indices.count ? indices[i] : -1;
    const bool is_mine =
        index >= first_row && index < first_row + rows && index != call.padding_idx;
    row[k] = is_mine ? static_cast<int>(index - first_row) : -1;
    found[k] = __ballot_sync(0xffffffffu, is_mine);
    count += __popc(found[k]);
  }
  __syncthreads();  // the last chunk's list has been read
  if (lane == 0) {
    of_warp[warp] = count;
  }
  __syncthreads();
  int at = 0, all = 0;
  for (int w = 0; w < warps; ++w) {
    at += w < warp ? of_warp[w] : 0;
    all += of_warp[w];
  }
#pragma unroll
  for (int k = 0; k < rounds; ++k) {
    if (row[k] >= 0) {
      uses[at + __popc(found[k] & ((1u << lane) - 1))] =
          Use::of(row[k], (warp * rounds + k) * 32 + lane);
    }
    at += __popc(found[k]);
  }
  __syncthreads();
  return all;
}

// `width` threads, a power of two, stand side by side on the columns of a strip; the teams that a
// block has of them share its rows. A strip has `blocks_of_strip` blocks, one behind the other.
template <class T>
__global__ void __launch_bounds__(threads)
    embedding_backward_kernel(const EmbeddingBackward<T> call, int width,
                              unsigned blocks_of_strip) {
  __shared__ double sums[sums_of_block];  // [rows][width]
  __shared__ Use uses[chunk];
  const int thread = static_cast<int>(threadIdx.x);
  const int most_rows = sums_of_block / width;
  const std::int64_t first_row =
      static_cast<std::int64_t>(blockIdx.x % blocks_of_strip) * most_rows;
  const std::int64_t left = call.rows - first_row;
  const int rows = static_cast<int>(left < most_rows ? left : most_rows);
  const int teams = threads / width, team = thread / width, lane = thread % width;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x / blocks_of_strip) * width + lane;
  const bool has_column = column < call.columns;
  for (int i = thread; i < sums_of_block; i += threads) {
    sums[i] = 0;
  }
  for (std::int64_t begin = 0; begin < call.indices.count; begin += chunk) {
    const int count = list_uses(call, begin, first_row, rows, uses);
    for (int first = 0; first < count; first += ahead) {
      float value[ahead];
      int row[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        row[k] = first + k < count ? uses[first + k].row() : -1;
        if (!has_column || row[k] < 0 || row[k] % teams != team) {
          row[k] = -1;
        } else {
          value[k] = to_float(call.dy[(begin + uses[first + k].place()) * call.columns + column]);
        }
      }
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (row[k] >= 0) {
          sums[row[k] * width + lane] += value[k];
        }
      }
    }
  }
  __syncthreads();  // where there was no index
  for (int row = team; has_column && row < rows; row += teams) {
    T& to = call.dw[(first_row + row) * call.columns + column];
    const double before = call.accumulate ? static_cast<double>(to_float(to)) : 0.0;
    to = from_float<T>(static_cast<float>(sums[row * width + lane] + before));
  }
}

}  // namespace

template <class T>
void embedding_backward(int device, const EmbeddingBackward<T>& call) {
  if (call.rows == 0 || call.columns == 0) {
    return;
  }
  int width = 1;
  while (width < threads && width < call.columns) {
    width *= 2;
  }
  const std::int64_t rows_of_block = sums_of_block / width;
  const auto blocks_of_strip =
      static_cast<unsigned>((call.rows + rows_of_block - 1) / rows_of_block);
  const auto strips = static_cast<unsigned>((call.columns + width - 1) / width);
  // In one dimension, since the others end at 65535 blocks.
  embedding_backward_kernel<<<blocks_of_strip * strips, threads, 0, use(device)>>>(call, width,
                                                                                   blocks_of_strip);
  check(cudaGetLastError(), "embedding_backward_kernel");
}

template void embedding_backward(int, const EmbeddingBackward<SINTER_STORAGE>&);

}  // namespace sinter::cuda
