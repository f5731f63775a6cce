// From one storage type to another, eight elements a thread.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/vectors.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

constexpr int threads = 256;
constexpr int in_group = 8;

bool on_groups(const void* x, const void* y) {
  return ((reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y)) & 15) == 0;
}

template <class From, class To>
__global__ void __launch_bounds__(threads)
    cast_kernel(const From* x, To* y, std::int64_t n, bool in_vectors) {
  const std::int64_t first =
      in_group * (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x);
  if (in_vectors && first + in_group <= n) {
    float value[in_group];
#pragma unroll
    for (int at = 0; at < in_group; at += width<From>) {
      const Vector<From> v = load(x + first + at);
#pragma unroll
      for (int e = 0; e < width<From>; ++e) {
        value[at + e] = v.value[e];
      }
    }
#pragma unroll
    for (int at = 0; at < in_group; at += width<To>) {
      Vector<To> v;
#pragma unroll
      for (int e = 0; e < width<To>; ++e) {
        v.value[e] = value[at + e];
      }
      store(y + first + at, v);
    }
    return;
  }
  for (std::int64_t i = first; i < n && i < first + in_group; ++i) {
    y[i] = from_float<To>(to_float(x[i]));
  }
}

template <class From, class To>
void launch(int device, const From* x, To* y, std::int64_t n) {
  constexpr std::int64_t in_block = std::int64_t{threads} * in_group;
  if (n > 0) {
    const auto blocks = static_cast<unsigned>((n + in_block - 1) / in_block);
    cast_kernel<<<blocks, threads, 0, use(device)>>>(x, y, n, on_groups(x, y));
    check(cudaGetLastError(), "cast_kernel");
  }
}

}  // namespace

template <class T>
void cast(int device, const T* x, float* y, std::int64_t n) {
  launch(device, x, y, n);
}
template <class T>
void cast(int device, const T* x, float16* y, std::int64_t n) {
  launch(device, x, y, n);
}
template <class T>
void cast(int device, const T* x, bfloat16* y, std::int64_t n) {
  launch(device, x, y, n);
}

template void cast(int, const SINTER_STORAGE*, float*, std::int64_t);
template void cast(int, const SINTER_STORAGE*, float16*, std::int64_t);
template void cast(int, const SINTER_STORAGE*, bfloat16*, std::int64_t);

}  // namespace sinter::cuda
