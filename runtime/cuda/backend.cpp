// The CUDA device: memory, copies and one stream for each GPU. A machine without driver or GPU is
// no error until somebody asks for the device.
#include <atomic>
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <string>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/cuda/graph.h>
#include <sinter/runtime/cuda/presence.h>
#include <sinter/runtime/cuda/staging.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace cuda {

namespace {

// The device that the thread last asked for; CUDA itself no longer tells after some failures.
thread_local int in_use = 0;

// Those after which CUDA refuses every further call of the process, by its documentation.
bool loses_device(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // a failure that is not sticky must not be met again by the next call
  throw Error(text("CUDA: ", call, " failed on cuda:", in_use, ": ", cudaGetErrorString(status),
                   loses_device(status) ? "; the device is lost for this process, which has to be "
                                          "started again"
                                        : ""));
}

namespace {

struct UsedStream {
  cudaStream_t stream = nullptr;
  std::uint64_t uses = 0;
};

/// The mutex is the caller's to hold.
std::map<int, UsedStream>& streams() {
  static auto& all = *new std::map<int, UsedStream>;
  return all;
}
std::mutex streams_mutex;

struct Redirected {
  int index = -1;
  UsedStream used;
};
thread_local Redirected redirected;

}  // namespace

cudaStream_t use(int index) {
  in_use = index;
  check(cudaSetDevice(index), "cudaSetDevice");
  if (redirected.index == index) {
    ++redirected.used.uses;
    return redirected.used.stream;
  }
  const std::scoped_lock lock(streams_mutex);
  UsedStream& used = streams()[index];
  if (used.stream == nullptr) {
    check(cudaStreamCreateWithFlags(&used.stream, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
  }
  ++used.uses;
  return used.stream;
}

void redirect(int index, cudaStream_t recorded) {
  // Numbers that no other stream's uses have.
  static std::atomic<std::uint64_t> serial{std::uint64_t{1} << 31};
  redirected = {recorded == nullptr ? -1 : index, {recorded, ++serial << 32}};
}

std::uint64_t uses(int index) {
  if (redirected.index == index) {
    return redirected.used.uses;
  }
  const std::scoped_lock lock(streams_mutex);
  return streams()[index].uses;
}

namespace {

int count() { return static_cast<int>(presence().names.size()); }
std::string absent_because() { return presence().absent_because; }
std::string name(int index) { return presence().names.at(static_cast<std::size_t>(index)); }

std::string versions() {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return text("driver ", driver, ", toolkit ", CUDART_VERSION);
}

Backend::Memory memory(int index) {
  use(index);
  Backend::Memory found;
  check(cudaMemGetInfo(&found.free, &found.total), "cudaMemGetInfo");
  return found;
}

void* allocate(int index, std::size_t bytes) {
  use(index);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;  // the pool gives back what it holds and says what is in use
  }
  check(status, "cudaMalloc");
  return memory;
}

// The driver may be gone when a program's last tensors go, and nobody is left to tell; but the next
// launch must not be blamed for it.
void forget(cudaError_t status) noexcept {
  if (status != cudaSuccess) {
    cudaGetLastError();
  }
}

// cudaFree waits for the device, so work that still uses the memory is done first.
void release(int, void* memory) noexcept { forget(cudaFree(memory)); }

void refuse_capture() {
  sinter::check(!is_capturing(), "a copy between host and device cannot be captured in a graph");
}

void copy_from_host(int index, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    refuse_capture();
    copy_in(index, to, from, bytes);
  }
}
void copy_to_host(int index, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    refuse_capture();
    copy_out(index, to, from, bytes);
  }
}
void copy(int index, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, use(index)),
          "cudaMemcpyAsync");
  }
}

void synchronize(int index) { check(cudaStreamSynchronize(use(index)), "cudaStreamSynchronize"); }

void* make_event(int index) {
  use(index);
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}
void release_event(int, void* event) noexcept {
  forget(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}
void record_event(int index, void* event) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), use(index)), "cudaEventRecord");
}
void synchronize_event(int index, void* event) {
  use(index);
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "cudaEventSynchronize");
}
double milliseconds(int index, void* from, void* to) {
  use(index);
  float elapsed = 0;
  check(
      cudaEventElapsedTime(&elapsed, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)),
      "cudaEventElapsedTime");
  return elapsed;
}

}  // namespace
}  // namespace cuda

const Backend cuda_backend{
    .count = cuda::count,
    .absent_because = cuda::absent_because,
    .name = cuda::name,
    .versions = cuda::versions,
    .memory = cuda::memory,
    .allocate = cuda::allocate,
    .release = cuda::release,
    .copy_from_host = cuda::copy_from_host,
    .copy_to_host = cuda::copy_to_host,
    .copy = cuda::copy,
    .fill = cuda::fill,
    .synchronize = cuda::synchronize,
    .make_event = cuda::make_event,
    .release_event = cuda::release_event,
    .record_event = cuda::record_event,
    .synchronize_event = cuda::synchronize_event,
    .milliseconds = cuda::milliseconds,
    .begin_capture = cuda::begin_capture,
    .end_capture = cuda::end_capture,
    .replay_graph = cuda::replay_graph,
    .release_graph = cuda::release_graph,
    .kernels_of_graph = cuda::kernels_of_graph,
    .begin_branch = cuda::begin_branch,
    .end_branch = cuda::end_branch,
    .join_branch = cuda::join_branch,
};

}  // namespace sinter
