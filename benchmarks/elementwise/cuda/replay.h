// Work that is timed as often as wanted. Small launches are captured once as a CUDA graph, from
// which they follow each other as they do in a captured training step. Large ones are launched one
// by one: a graph copies half a gigabyte at two thirds of the speed of a plain copy.
#pragma once

#include <cuda_runtime_api.h>
#include <functional>

#include <sinter/runtime/device.h>

namespace bench {

class Replay {
 public:
  /// `launch(i)` puts launch number i on sinter's stream of the device. Launch 0 is also run before
  /// capture, in which a kernel may neither load its code nor tune itself.
  Replay(sinter::Device device, int launches, bool captured, std::function<void(int)> launch);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Microseconds a launch, of all launches in a row.
  double time();

 private:
  void capture();

  int launches_;
  std::function<void(int)> launch_;
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace bench
