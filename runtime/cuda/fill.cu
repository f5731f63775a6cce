// Fills device memory with one value of 1, 2, 4 or 8 bytes.
#include <cstdint>
#include <cstring>

#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/error.h>

namespace sinter::cuda {
namespace {

template <class T>
__global__ void fill_kernel(T* to, T value, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    to[i] = value;
  }
}

template <class T>
void launch(cudaStream_t stream, void* to, const void* value, std::size_t count) {
  T element;
  std::memcpy(&element, value, sizeof(T));
  constexpr std::size_t threads = 256;
  constexpr std::size_t most_blocks = 2048;  // enough to fill any GPU; the loop does the rest
  const std::size_t blocks = (count + threads - 1) / threads;
  fill_kernel<<<static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks), threads, 0,
                stream>>>(static_cast<T*>(to), element, count);
  check(cudaGetLastError(), "fill_kernel");
}

}  // namespace

void fill(int index, void* to, const void* value, std::size_t size, std::size_t count) {
  if (count == 0) {
    return;
  }
  const cudaStream_t stream = use(index);
  switch (size) {
    case 1:
      return launch<std::uint8_t>(stream, to, value, count);
    case 2:
      return launch<std::uint16_t>(stream, to, value, count);
    case 4:
      return launch<std::uint32_t>(stream, to, value, count);
    case 8:
      return launch<std::uint64_t>(stream, to, value, count);
    default:
      throw Error(text("CUDA: fill takes elements of 1, 2, 4 or 8 bytes, not ", size));
  }
}

}  // namespace sinter::cuda
