// Single elements, each from where it is, side by side.
#include <algorithm>

#include <sinter/kernels/cuda/ops.h>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

constexpr int most = 128;  // in one launch: their addresses are arguments of the kernel

struct Places {
  const std::byte* from[most];
};

__global__ void stack_kernel(const Places places, std::byte* to, int size) {
  for (int byte = 0; byte < size; ++byte) {
    to[threadIdx.x * size + byte] = places.from[threadIdx.x][byte];
  }
}

}  // namespace

void stack(Ins x, Out y) {
  const auto size = static_cast<int>(size_of(y->dtype()));
  const cudaStream_t stream = use(y->device().index);
  for (std::size_t done = 0; done < x.size(); done += most) {
    const std::size_t count = std::min<std::size_t>(most, x.size() - done);
    Places places{};
    for (std::size_t i = 0; i < count; ++i) {
      places.from[i] = x[done + i].address();
    }
    stack_kernel<<<1, static_cast<unsigned>(count), 0, stream>>>(
        places, y->address() + done * static_cast<std::size_t>(size), size);
    check(cudaGetLastError(), "stack_kernel");
  }
}

}  // namespace sinter::cuda
