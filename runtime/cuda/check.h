// Every CUDA call and launch goes through here: a failure becomes one Error sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace sinter::cuda {

/// Throws Error naming the call, the device and CUDA's own words where `status` is not success.
/// Failures that leave the device usable are cleared; after the others the sentence says that the
/// process has lost the device. Work runs behind the calls, so a fault of a kernel may come out of
/// a later call.
void check(cudaError_t status, const char* call);

/// The stream that all work of a device runs on, and the device made current for this thread.
cudaStream_t use(int index);

/// While this thread records a graph: what use() gives it for the device instead, so that other
/// threads' work goes on. Null ends it.
void redirect(int index, cudaStream_t recorded);

/// How often use() has been called for a device: the same number means that nothing has been put
/// into its stream in between, for nobody keeps the stream.
std::uint64_t uses(int index);

/// Writes `count` copies of the `size` bytes at `value` (on the host) to device memory.
void fill(int index, void* to, const void* value, std::size_t size, std::size_t count);

}  // namespace sinter::cuda
