// The loss scale of mixed precision, without the host knowing it.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/math/optimizers.h>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

__global__ void scale_update_kernel(float* scale, std::int64_t* clean, std::int64_t* skipped,
                                    const std::int32_t* found, ops::ScaleUpdateArgs args) {
  math::update_scale(*scale, *clean, *skipped, *found != 0, args.growth_factor, args.backoff_factor,
                     args.growth_interval);
}

}  // namespace

void scale_update(int device, float* scale, std::int64_t* clean, std::int64_t* skipped,
                  const std::int32_t* found, const ops::ScaleUpdateArgs& args) {
  scale_update_kernel<<<1, 1, 0, use(device)>>>(scale, clean, skipped, found, args);
  check(cudaGetLastError(), "scale_update_kernel");
}

}  // namespace sinter::cuda
