#include <sinter/runtime/build_info.h>
#include <sinter/runtime/cpu_path.h>
#include <sinter/runtime/device.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/parallel.h>

namespace sinter {
namespace {

std::string cpu_path_or_reason() {
  try {
    return std::string(name_of(cpu_path()));
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

// The macros come from the build.
const char* version() { return SINTER_VERSION; }

std::string build_info() {
  const DeviceChoice choice = best_device();
  return text("sinter ", version(), ", ", SINTER_COMPILER, ", CUDA: ", SINTER_CUDA_STATE,
              ", CPU path: ", cpu_path_or_reason(), ", ", num_threads(),
              " threads, device: ", choice.device, " (", choice.reason, ")");
}

}  // namespace sinter
