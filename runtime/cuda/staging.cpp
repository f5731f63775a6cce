#include <algorithm>
#include <array>
#include <cstring>
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>

#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/cuda/staging.h>
#include <sinter/runtime/log.h>
#include <sinter/runtime/text.h>

namespace sinter::cuda {
namespace {

constexpr std::size_t piece = std::size_t{4} << 20;
constexpr std::size_t small = std::size_t{64} << 10;

struct Buffer {
  std::byte* memory = nullptr;
  cudaEvent_t idle = nullptr;  // behind the last transfer from or to it

  void wait() const { check(cudaEventSynchronize(idle), "cudaEventSynchronize"); }
  void mark(cudaStream_t stream) const { check(cudaEventRecord(idle, stream), "cudaEventRecord"); }
};

void plain_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes,
                cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

class Staging {
 public:
  explicit Staging(int index) : pinned_(make_buffers(index)) {}

  void copy_in(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (!pinned_) {
      return plain_copy(stream, to, from, bytes, cudaMemcpyHostToDevice);
    }
    in_pieces(stream, [&] {
      for (std::size_t at = 0; at < bytes; at += piece) {
        const std::size_t size = std::min(piece, bytes - at);
        const Buffer& buffer = next();
        buffer.wait();
        std::memcpy(buffer.memory, static_cast<const std::byte*>(from) + at, size);
        check(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, buffer.memory, size,
                              cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
        buffer.mark(stream);
      }
    });
  }

  void copy_out(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (!pinned_) {
      return plain_copy(stream, to, from, bytes, cudaMemcpyDeviceToHost);
    }
    in_pieces(stream, [&] {
      const auto fetch = [&](std::size_t at) -> const Buffer* {
        if (at >= bytes) {
          return nullptr;
        }
        const Buffer& buffer = next();
        check(cudaMemcpyAsync(buffer.memory, static_cast<const std::byte*>(from) + at,
                              std::min(piece, bytes - at), cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
        buffer.mark(stream);
        return &buffer;
      };
      const Buffer* arriving = fetch(0);
      for (std::size_t at = 0; at < bytes; at += piece) {
        const Buffer* arrived = arriving;
        arriving = fetch(at + piece);
        arrived->wait();
        std::memcpy(static_cast<std::byte*>(to) + at, arrived->memory, std::min(piece, bytes - at));
      }
    });
  }

 private:
  bool make_buffers(int index) {
    for (Buffer& buffer : buffers_) {
      void* memory = nullptr;
      const cudaError_t status = cudaHostAlloc(&memory, piece, cudaHostAllocDefault);
      if (status != cudaSuccess) {
        cudaGetLastError();
        log::debug(text("cuda:", index, ": no pinned host memory (", cudaGetErrorString(status),
                        "); copies to and from the device are slower"));
        return false;  // what the first buffer has is not worth giving back
      }
      buffer.memory = static_cast<std::byte*>(memory);
      check(cudaEventCreateWithFlags(&buffer.idle, cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
    }
    return true;
  }

  const Buffer& next() {
    turn_ = 1 - turn_;
    return buffers_[turn_];
  }

  // After a failure half way a transfer may still use a buffer that no event guards.
  template <class Body>
  void in_pieces(cudaStream_t stream, Body body) {
    try {
      body();
    } catch (...) {
      cudaStreamSynchronize(stream);
      cudaGetLastError();
      throw;
    }
  }

  std::array<Buffer, 2> buffers_;
  std::size_t turn_ = 0;
  std::mutex mutex_;
  bool pinned_;  // after what making the buffers writes to
};

// Never destroyed: the driver may be gone before a program's static objects are.
Staging& staging(int index) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<int, Staging>;
  const std::scoped_lock lock(mutex);
  return all.try_emplace(index, index).first->second;
}

}  // namespace

// Small copies to the device go through the buffers too: straight from pageable memory they would
// have to wait for all work that the device still has.
void copy_in(int index, void* to, const void* from, std::size_t bytes) {
  const cudaStream_t stream = use(index);
  staging(index).copy_in(stream, to, from, bytes);
}

void copy_out(int index, void* to, const void* from, std::size_t bytes) {
  const cudaStream_t stream = use(index);
  if (bytes <= small) {
    return plain_copy(stream, to, from, bytes, cudaMemcpyDeviceToHost);
  }
  staging(index).copy_out(stream, to, from, bytes);
}

}  // namespace sinter::cuda
