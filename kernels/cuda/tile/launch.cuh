// The launch itself of a tile kernel.
#pragma once

#include <cstddef>

#include <sinter/kernels/cuda/tile/launch.h>

namespace sinter::cuda::tile {

/// `kernel` waits as wait_for_previous() does.
template <class Arguments>
void run(Launch& launch, void (*kernel)(Arguments), dim3 blocks, int threads,
         std::size_t shared_bytes, const Arguments& arguments) {
  cudaLaunchAttribute attribute{};
  const cudaLaunchConfig_t config = launch.begin(blocks, threads, shared_bytes, attribute);
  if (launch.is_new(reinterpret_cast<const void*>(kernel), shared_bytes)) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
  }
  check(cudaLaunchKernelEx(&config, kernel, arguments), "a tile kernel");
  launch.end();
}

}  // namespace sinter::cuda::tile
