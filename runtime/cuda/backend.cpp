// The CUDA device: memory, copies and one stream for each GPU. A machine without driver or GPU is
// no error until somebody asks for the device.
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <string>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // a failure that is not sticky must not be met again by the next call
  int index = -1;
  cudaGetDevice(&index);
  throw Error(text("CUDA: ", call, " failed on cuda:", index, ": ", cudaGetErrorString(status)));
}

cudaStream_t use(int index) {
  static std::mutex mutex;
  static auto& streams = *new std::map<int, cudaStream_t>;
  check(cudaSetDevice(index), "cudaSetDevice");
  const std::scoped_lock lock(mutex);
  const auto found = streams.find(index);
  if (found != streams.end()) {
    return found->second;
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  streams.emplace(index, stream);
  return stream;
}

namespace {

struct Presence {
  int count = 0;
  std::string absent_because;
};

Presence look() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) {
    return {count, {}};
  }
  cudaGetLastError();
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return {0, "there is no NVIDIA driver on this machine"};
  }
  cudaGetLastError();
  return {0, status == cudaSuccess || status == cudaErrorNoDevice
                 ? "no CUDA device is visible (is CUDA_VISIBLE_DEVICES set?)"
                 : std::string("the CUDA driver says: ") + cudaGetErrorString(status)};
}

const Presence& presence() {
  static const Presence found = look();
  return found;
}

int count() { return presence().count; }
std::string absent_because() { return presence().absent_because; }

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

// The driver may be gone when a program's last tensors go, and nobody is left to tell.
void release(int, void* memory) noexcept { cudaFree(memory); }

void transfer(int index, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) {
    return;
  }
  const bool leaves_device = kind != cudaMemcpyDeviceToDevice;
  sinter::check(!leaves_device || !is_capturing(),
                "a copy between host and device cannot be captured in a graph");
  const cudaStream_t stream = use(index);
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
  if (leaves_device) {
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
}

void copy_from_host(int index, void* to, const void* from, std::size_t bytes) {
  transfer(index, to, from, bytes, cudaMemcpyHostToDevice);
}
void copy_to_host(int index, void* to, const void* from, std::size_t bytes) {
  transfer(index, to, from, bytes, cudaMemcpyDeviceToHost);
}
void copy(int index, void* to, const void* from, std::size_t bytes) {
  transfer(index, to, from, bytes, cudaMemcpyDeviceToDevice);
}

void synchronize(int index) { check(cudaStreamSynchronize(use(index)), "cudaStreamSynchronize"); }

}  // namespace
}  // namespace cuda

const Backend cuda_backend{
    .count = cuda::count,
    .absent_because = cuda::absent_because,
    .has_kernels = false,
    .allocate = cuda::allocate,
    .release = cuda::release,
    .copy_from_host = cuda::copy_from_host,
    .copy_to_host = cuda::copy_to_host,
    .copy = cuda::copy,
    .fill = cuda::fill,
    .synchronize = cuda::synchronize,
};

}  // namespace sinter
