// How tile kernels are launched: after another tile kernel, while that is still running
// (programmatic dependent launch), which hides what a launch costs. A kernel waits for the end of
// the one before it, but may already load what that one does not write. Which arguments those are
// is known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda::tile {

struct Range {
  std::uintptr_t begin;
  std::uintptr_t end;

  Range(const Tensor& tensor);
  Range(const void* data, std::size_t bytes)
      : begin(reinterpret_cast<std::uintptr_t>(data)), end(begin + bytes) {}
};

/// One launch on the stream of a device, in order with those of other threads while it lives.
class Launch {
 public:
  explicit Launch(int device);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Whether the kernel before this one leaves `range` as it is, and all earlier ones have ended.
  bool settled(const Range& range) const;
  /// What this kernel writes.
  void writes(const Range& range);
  int multiprocessors() const;

  // For run() of launch.cuh.

  /// Whether a kernel has not been told yet that it may have so much shared memory.
  bool is_new(const void* kernel, std::size_t shared_bytes) const;
  /// The attribute has to live as long as the configuration.
  cudaLaunchConfig_t begin(dim3 blocks, int threads, std::size_t shared_bytes,
                           cudaLaunchAttribute& attribute);
  void end();

 private:
  struct Device;
  static Device& of(int index);

  int index_;
  Device& device_;
  std::unique_lock<std::mutex> lock_;
  bool follows_a_tile_ = false;
  std::uint64_t this_use_ = 0;
};

/// Whether the code that a GPU runs has the instructions that tile kernels are made of.
bool has_tensor_cores(int device);

}  // namespace sinter::cuda::tile
