#include <cuda_runtime_api.h>

#include <sinter/runtime/cuda/presence.h>
#include <sinter/runtime/text.h>

namespace sinter::cuda {
namespace {

std::string why_none(cudaError_t status) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return "there is no NVIDIA driver on this machine";
  }
  cudaGetLastError();
  return status == cudaSuccess || status == cudaErrorNoDevice
             ? "no CUDA device is visible (is CUDA_VISIBLE_DEVICES set?)"
             : std::string("the CUDA driver says: ") + cudaGetErrorString(status);
}

Presence look() {
  Presence found;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (status != cudaSuccess || count == 0) {
    found.absent_because = why_none(status);
    return found;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, index);
        failed != cudaSuccess) {
      cudaGetLastError();
      found.absent_because = text("cuda:", index, " does not answer: ", cudaGetErrorString(failed));
      break;
    }
    // The first launch would fail there. Devices are known by number, so those behind it go too.
    const int built_for = oldest_architecture();
    if (properties.major * 100 + properties.minor * 10 < built_for) {
      found.absent_because =
          text("cuda:", index, ", ", properties.name, ", has compute capability ", properties.major,
               ".", properties.minor, ", and this sinter was built for ", built_for / 100, ".",
               built_for / 10 % 10, " and newer");
      break;
    }
    found.names.emplace_back(properties.name);
  }
  return found;
}

}  // namespace

const Presence& presence() {
  static const Presence found = look();
  return found;
}

}  // namespace sinter::cuda
