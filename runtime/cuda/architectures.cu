// What the device code was compiled for, which only nvcc knows.
#include <sinter/runtime/cuda/presence.h>

namespace sinter::cuda {

int oldest_architecture() {
  constexpr int architectures[] = {__CUDA_ARCH_LIST__};
  int oldest = architectures[0];
  for (const int architecture : architectures) {
    oldest = architecture < oldest ? architecture : oldest;
  }
  return oldest;
}

int architecture_for(int capability) {
  constexpr int architectures[] = {__CUDA_ARCH_LIST__};
  int newest = 0;
  for (const int architecture : architectures) {
    if (architecture <= capability && architecture > newest) {
      newest = architecture;
    }
  }
  return newest;
}

}  // namespace sinter::cuda
