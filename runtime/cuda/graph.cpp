#include <cstddef>
#include <cuda_runtime_api.h>
#include <memory>
#include <utility>
#include <vector>

#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/cuda/graph.h>

namespace sinter::cuda {
namespace {

// What a thread records: its stream and, once there is work beside, that work's.
struct Capture {
  cudaStream_t stream = nullptr;
  cudaStream_t branch = nullptr;
  cudaEvent_t forked = nullptr;
  cudaEvent_t joined = nullptr;
};
thread_local Capture capture;

struct Recorded {
  cudaGraphExec_t executable = nullptr;
  std::int64_t kernels = 0;

  Recorded() = default;
  ~Recorded() {
    if (executable != nullptr && cudaGraphExecDestroy(executable) != cudaSuccess) {
      cudaGetLastError();
    }
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
};

cudaError_t count_kernels(cudaGraph_t graph, std::int64_t& kernels) {
  std::size_t count = 0;
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (status == cudaSuccess && count > 0) {
    status = cudaGraphGetNodes(graph, nodes.data(), &count);
  }
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeCount;
    if (status == cudaSuccess) {
      status = cudaGraphNodeGetType(node, &type);
    }
    kernels += type == cudaGraphNodeTypeKernel ? 1 : 0;
  }
  return status;
}

// The capture is over, whether it ended well or not.
void end(int index) {
  redirect(index, nullptr);
  const Capture ended = std::exchange(capture, {});
  for (const cudaStream_t stream : {ended.stream, ended.branch}) {
    if (stream != nullptr) {
      cudaStreamDestroy(stream);
    }
  }
  for (const cudaEvent_t event : {ended.forked, ended.joined}) {
    if (event != nullptr) {
      cudaEventDestroy(event);
    }
  }
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
  capture.stream = stream;
  redirect(index, stream);
}

void begin_branch(int index) {
  if (capture.branch == nullptr) {
    check(cudaStreamCreateWithFlags(&capture.branch, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    for (cudaEvent_t* event : {&capture.forked, &capture.joined}) {
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
  }
  check(cudaEventRecord(capture.forked, capture.stream), "cudaEventRecord");
  check(cudaStreamWaitEvent(capture.branch, capture.forked), "cudaStreamWaitEvent");
  redirect(index, capture.branch);
}

void end_branch(int index) {
  check(cudaEventRecord(capture.joined, capture.branch), "cudaEventRecord");
  redirect(index, capture.stream);
}

// It counts as a use of the stream: a kernel after it follows others than the last one here.
void join_branch(int index) {
  check(cudaStreamWaitEvent(use(index), capture.joined), "cudaStreamWaitEvent");
}

void* end_capture(int index, bool keep) {
  use(index);  // the work may have turned to another device
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(capture.stream, &graph);
  end(index);
  if (!keep || ended != cudaSuccess) {
    if (graph != nullptr) {
      cudaGraphDestroy(graph);
    }
    if (keep) {
      check(ended, "cudaStreamEndCapture");
    }
    return nullptr;
  }
  auto recorded = std::make_unique<Recorded>();
  const cudaError_t counted = count_kernels(graph, recorded->kernels);
  const cudaError_t made = cudaGraphInstantiate(&recorded->executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
  check(counted, "cudaGraphGetNodes");
  return recorded.release();
}

void replay_graph(int index, void* graph) {
  check(cudaGraphLaunch(static_cast<Recorded*>(graph)->executable, use(index)), "cudaGraphLaunch");
}

void release_graph(int, void* graph) noexcept { delete static_cast<Recorded*>(graph); }

std::int64_t kernels_of_graph(void* graph) { return static_cast<Recorded*>(graph)->kernels; }

}  // namespace sinter::cuda
