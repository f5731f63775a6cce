#include <cuda_runtime_api.h>

#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/cuda/graph.h>

namespace sinter::cuda {
namespace {

void end_redirection(int index, cudaStream_t stream) {
  redirect(index, nullptr);
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

}  // namespace

// Relaxed, for the pool may have to ask for memory on the way.
void begin_capture(int index) {
  use(index);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  if (begun != cudaSuccess) {
    cudaStreamDestroy(stream);
  }
  check(begun, "cudaStreamBeginCapture");
  redirect(index, stream);
}

void* end_capture(int index, bool keep) {
  const cudaStream_t stream = use(index);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  end_redirection(index, stream);
  if (!keep || ended != cudaSuccess) {
    if (graph != nullptr) {
      cudaGraphDestroy(graph);
    }
    if (keep) {
      check(ended, "cudaStreamEndCapture");
    }
    return nullptr;
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
  return executable;
}

void replay_graph(int index, void* graph) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), use(index)), "cudaGraphLaunch");
}

void release_graph(int, void* graph) noexcept {
  if (cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)) != cudaSuccess) {
    cudaGetLastError();
  }
}

}  // namespace sinter::cuda
