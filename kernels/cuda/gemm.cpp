#include <algorithm>
#include <cstddef>
#include <cublas_v2.h>
#include <limits>
#include <map>
#include <mutex>

#include <sinter/kernels/cuda/gemm.h>
#include <sinter/kernels/precision.h>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* call, int device) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    cudaGetLastError();  // what it left behind must not be met again by the next launch
    throw Error(
        text("CUDA: ", call, " failed on cuda:", device, ": ", cublasGetStatusString(status)));
  }
}

// Room of the size that cuBLAS would take for itself, so that it takes nothing for a captured
// product. If the first product is itself captured, the room is the graph's and stays so: it is
// never given back.
Tensor workspace(int device) {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  const std::int64_t mebibytes = major >= 9 ? 32 : 4;
  return Tensor::empty({mebibytes << 20}, DType::uint8, Device::cuda(device));
}

struct Handle {
  cublasHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  Tensor room;
};

// One handle for each device, never destroyed: a tensor with static lifetime may outlive it. Making
// one allocates memory, which relaxed capture (runtime/cuda/graph.cpp) allows.
cublasHandle_t handle(int device) {
  static auto& handles = *new std::map<int, Handle>;
  const cudaStream_t stream = use(device);
  Handle& found = handles[device];
  if (!found.room.defined()) {
    found.room = workspace(device);
  }
  if (found.blas == nullptr) {
    cublasHandle_t made = nullptr;
    check_blas(cublasCreate(&made), "cublasCreate", device);
    // Sums of 16-bit products are float32 from end to end.
    constexpr int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check_blas(cublasSetMathMode(made, static_cast<cublasMath_t>(mode)), "cublasSetMathMode",
               device);
    found.blas = made;
  }
  if (found.stream != stream) {
    found.stream = nullptr;  // in case of a failure
    check_blas(cublasSetStream(found.blas, stream), "cublasSetStream", device);
    // After the stream, which takes cuBLAS back to room of its own.
    check_blas(cublasSetWorkspace(found.blas, found.room.address(), found.room.bytes()),
               "cublasSetWorkspace", device);
    found.stream = stream;
  }
  return found.blas;
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::float32 ? CUDA_R_32F : dtype == DType::float16 ? CUDA_R_16F : CUDA_R_16BF;
}

cublasComputeType_t compute_type(DType dtype) {
  return dtype == DType::float32 && matmul_precision() == MatmulPrecision::high
             ? CUBLAS_COMPUTE_32F_FAST_TF32
             : CUBLAS_COMPUTE_32F;
}

int narrow(std::int64_t size) {
  sinter::check(size <= std::numeric_limits<int>::max(), "matmul: a matrix side of ", size,
                " is more than cuBLAS takes; cut the batch");
  return static_cast<int>(size);
}

// Even of an empty matrix it is at least 1.
int leading(std::int64_t size) { return std::max(1, narrow(size)); }

}  // namespace

void gemm(int device, DType dtype, bool transpose_a, bool transpose_b, std::int64_t m,
          std::int64_t n, std::int64_t k, const void* a, const void* b, bool accumulate, void* c) {
  if (m == 0 || n == 0) {
    return;
  }
  // cuBLAS is column-major: read so, row-major c is c^T = b^T a^T.
  const float one = 1, beta = accumulate ? 1.0f : 0.0f;
  const cudaDataType_t type = type_of(dtype);
  static std::mutex mutex;  // a handle is for one thread at a time
  const std::scoped_lock lock(mutex);
  check_blas(
      cublasGemmEx(handle(device), transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                   transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, narrow(n), narrow(m), narrow(k), &one,
                   b, type, leading(transpose_b ? k : n), a, type, leading(transpose_a ? m : k),
                   &beta, c, type, leading(n), compute_type(dtype), CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx", device);
}

}  // namespace sinter::cuda
