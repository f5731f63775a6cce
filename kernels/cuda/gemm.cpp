#include <algorithm>
#include <cublas_v2.h>
#include <limits>
#include <map>
#include <mutex>

#include <sinter/kernels/cuda/gemm.h>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/error.h>

namespace sinter::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* call, int device) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    cudaGetLastError();  // what it left behind must not be met again by the next launch
    throw Error(
        text("CUDA: ", call, " failed on cuda:", device, ": ", cublasGetStatusString(status)));
  }
}

// One handle for each device, never destroyed: a tensor with static lifetime may outlive it.
cublasHandle_t handle(int device) {
  static auto& handles = *new std::map<int, cublasHandle_t>;
  const cudaStream_t stream = use(device);
  auto found = handles.find(device);
  if (found == handles.end()) {
    cublasHandle_t made = nullptr;
    check_blas(cublasCreate(&made), "cublasCreate", device);
    check_blas(cublasSetStream(made, stream), "cublasSetStream", device);
    // Sums of 16-bit products are float32 from end to end.
    constexpr int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check_blas(cublasSetMathMode(made, static_cast<cublasMath_t>(mode)), "cublasSetMathMode",
               device);
    found = handles.emplace(device, made).first;
  }
  return found->second;
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::float32 ? CUDA_R_32F : dtype == DType::float16 ? CUDA_R_16F : CUDA_R_16BF;
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
                   &beta, c, type, leading(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx", device);
}

}  // namespace sinter::cuda
