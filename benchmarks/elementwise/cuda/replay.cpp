#include "replay.h"

#include <utility>

#include <sinter/runtime/capture.h>
#include <sinter/runtime/cuda/check.h>

namespace bench {

using sinter::cuda::check;

Replay::Replay(sinter::Device device, int launches, bool captured, std::function<void(int)> launch)
    : launches_(launches), launch_(std::move(launch)), stream_(sinter::cuda::use(device.index)) {
  launch_(0);
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  if (captured) {
    capture();
  }
  check(cudaEventCreate(&begin_), "cudaEventCreate");
  check(cudaEventCreate(&end_), "cudaEventCreate");
  time();
}

void Replay::capture() {
  cudaGraph_t graph = nullptr;
  {
    const sinter::CaptureScope scope;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    for (int i = 0; i < launches_; ++i) {
      launch_(i);
    }
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  }
  check(cudaGraphInstantiateWithFlags(&graph_, graph, 0), "cudaGraphInstantiateWithFlags");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(cudaGraphUpload(graph_, stream_), "cudaGraphUpload");
}

Replay::~Replay() {
  if (graph_ != nullptr) {
    cudaGraphExecDestroy(graph_);
  }
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

double Replay::time() {
  check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
  if (graph_ != nullptr) {
    check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
  } else {
    for (int i = 0; i < launches_; ++i) {
      launch_(i);
    }
  }
  check(cudaEventRecord(end_, stream_), "cudaEventRecord");
  check(cudaEventSynchronize(end_), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
  return 1e3 * ms / launches_;
}

}  // namespace bench
