#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include <sinter/kernels/cuda/gemm.h>
#include <sinter/kernels/cuda/types.h>
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
        text("CUDA: ", call, " failed on cuda:", device, ": ", cublasLtGetStatusString(status)));
  }
}

// What decides which kernel is the best one. Pointers count by what they are multiples of, up to
// the 16 bytes of a vector: all memory of the pool is, wherever it lies.
struct Kind {
  DType dtype;
  DType result;
  cublasComputeType_t compute;
  bool transpose_a, transpose_b, accumulate, with_bias;
  std::int64_t m, n, k;
  std::uint32_t align_a, align_b, align_c;

  auto operator<=>(const Kind&) const = default;
};

std::uint32_t alignment(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) | 16;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// A product ready to be launched. cuBLASLt is column-major: read so, c is c^T = b^T a^T, and its
// own first matrix is b.
struct Plan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;
  cublasLtMatmulAlgo_t algorithm;
};

struct Engine {
  cublasLtHandle_t blas = nullptr;
  Tensor room;
  std::map<Kind, std::optional<Plan>> plans;  // none: there is no kernel
};

// Room as large as cuBLAS takes for itself. If the first product is itself captured, the room is
// the graph's and stays so: it is never given back.
Tensor workspace(int device) {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  const std::int64_t mebibytes = major >= 9 ? 32 : 4;
  return Tensor::empty({mebibytes << 20}, DType::uint8, Device::cuda(device));
}

// One for each device, never destroyed: a tensor with static lifetime may outlive it. Making one
// allocates memory, which relaxed capture (runtime/cuda/graph.cpp) allows.
Engine& engine(int index) {
  static auto& engines = *new std::map<int, Engine>;
  use(index);
  Engine& found = engines[index];
  if (!found.room.defined()) {
    found.room = workspace(index);
  }
  if (found.blas == nullptr) {
    check_blas(cublasLtCreate(&found.blas), "cublasLtCreate", index);
  }
  return found;
}

cudaDataType_t type_of(DType dtype) {
  return with_storage("matmul", dtype, []<class T>(T) {
    return std::is_same_v<T, float>     ? CUDA_R_32F
           : std::is_same_v<T, float16> ? CUDA_R_16F
                                        : CUDA_R_16BF;
  });
}

cublasComputeType_t compute_type(DType dtype) {
  return dtype == DType::float32 && matmul_precision() == MatmulPrecision::high
             ? CUBLAS_COMPUTE_32F_FAST_TF32
             : CUBLAS_COMPUTE_32F;
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value, int device) {
  check_blas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute", device);
}

// A row-major matrix of rows x columns, read transposed or not.
void lay_out(cublasLtMatrixLayout_t layout, DType dtype, bool transposed, std::int64_t rows,
             std::int64_t columns, int device) {
  if (transposed) {
    std::swap(rows, columns);
  }
  check_blas(cublasLtMatrixLayoutInit(layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), columns),
             "cublasLtMatrixLayoutInit", device);
}

class Preference {
 public:
  explicit Preference(int device) : device_(device) {
    check_blas(cublasLtMatmulPreferenceInit(&preference_), "cublasLtMatmulPreferenceInit", device);
  }
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute", device_);
  }
  cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  cublasLtMatmulPreferenceOpaque_t preference_;
  int device_;
};

// Whatever cuBLASLt thinks best. Timing its proposals would make a step a little faster, and its
// bits those of the one that won the race this time.
std::optional<Plan> plan_of(const Kind& kind, const Engine& on, int device) {
  Plan plan{};
  check_blas(cublasLtMatmulDescInit(&plan.operation, kind.compute, CUDA_R_32F),
             "cublasLtMatmulDescInit", device);
  set(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, kind.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
      device);
  set(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, kind.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
      device);
  set(&plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
      kind.with_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT, device);
  if (kind.with_bias) {
    set(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<std::int32_t>(type_of(kind.result)), device);
  }
  lay_out(&plan.first, kind.dtype, kind.transpose_b, kind.k, kind.n, device);
  lay_out(&plan.second, kind.dtype, kind.transpose_a, kind.m, kind.k, device);
  lay_out(&plan.result, kind.result, false, kind.m, kind.n, device);
  Preference preference(device);
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{on.room.bytes()});
  // Sums of 16-bit products are float32 from end to end.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.align_b);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.align_a);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kind.align_c);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.align_c);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      on.blas, &plan.operation, &plan.first, &plan.second, &plan.result, &plan.result,
      preference.get(), 1, &found, &count);
  const bool is_refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (is_refused || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
    cudaGetLastError();
    return std::nullopt;
  }
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic", device);
  plan.algorithm = found.algo;
  return plan;
}

// `bias` may be null.
bool run(const Product& p, const void* bias) {
  const bool is_plain = bias == nullptr;
  if (p.m == 0 || p.n == 0) {
    return is_plain;
  }
  if (p.k == 0) {  // which cuBLASLt does not take
    if (is_plain && !p.accumulate) {
      check(cudaMemsetAsync(p.c, 0, static_cast<std::size_t>(p.m * p.n) * size_of(p.result),
                            use(p.device)),
            "cudaMemsetAsync");
    }
    return is_plain;
  }
  static std::mutex mutex;  // of plans, whose bias is another in each launch, and of the room
  const std::scoped_lock lock(mutex);
  Engine& on = engine(p.device);
  const Kind kind{p.dtype,
                  p.result,
                  compute_type(p.dtype),
                  p.transpose_a,
                  p.transpose_b,
                  p.accumulate,
                  !is_plain,
                  p.m,
                  p.n,
                  p.k,
                  alignment(p.a),
                  alignment(p.b),
                  std::min(alignment(p.c), alignment(bias))};
  auto found = on.plans.find(kind);
  if (found == on.plans.end()) {
    found = on.plans.emplace(kind, plan_of(kind, on, p.device)).first;
  }
  if (!found->second) {
    sinter::check(!is_plain, "matmul: cuBLASLt has no kernel for ", p.dtype, " [", p.m, ", ", p.k,
                  "] times [", p.k, ", ", p.n, "]; cut the batch");
    return false;
  }
  Plan& plan = *found->second;
  if (!is_plain) {
    set(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, p.device);
  }
  const float one = 1, beta = p.accumulate ? 1.0f : 0.0f;
  check_blas(cublasLtMatmul(on.blas, &plan.operation, &one, p.b, &plan.first, p.a, &plan.second,
                            &beta, p.c, &plan.result, p.c, &plan.result, &plan.algorithm,
                            on.room.address(), on.room.bytes(), use(p.device)),
             "cublasLtMatmul", p.device);
  return true;
}

}  // namespace

void gemm(const Product& product) { run(product, nullptr); }

bool gemm_with_bias(const Product& product, const void* bias) { return run(product, bias); }

}  // namespace sinter::cuda
