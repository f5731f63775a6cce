// Matrix products by cuBLAS, on a device's stream.
#pragma once

#include <cstdint>

#include <sinter/runtime/dtype.h>

namespace sinter::cuda {

/// c = a b or c += a b for row-major c [m, n]; a is [m, k], or [k, m] read transposed, b [k, n], or
/// [n, k] read transposed. float32 as matmul_precision() says;
/// 16-bit types with float32 sums.
void gemm(int device, DType dtype, bool transpose_a, bool transpose_b, std::int64_t m,
          std::int64_t n, std::int64_t k, const void* a, const void* b, bool accumulate, void* c);

}  // namespace sinter::cuda
