// Matrix products by cuBLASLt, on a device's stream.
#pragma once

#include <cstdint>

#include <sinter/runtime/dtype.h>

namespace sinter::cuda {

/// c = a b or c += a b for row-major c [m, n]; a is [m, k], or [k, m] read transposed, b [k, n], or
/// [n, k] read transposed. float32 as matmul_precision() says; 16-bit types with float32 sums.
struct Product {
  int device;
  DType dtype;   ///< of a and b
  DType result;  ///< of c and a bias: the same, or float32
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  const void* a;
  const void* b;
  bool accumulate;
  void* c;
};

/// Which kernel computes it depends on sizes, types and alignment alone, so that the same product
/// has the same bits in every run. Throws Error where cuBLASLt fails.
void gemm(const Product& product);

/// The same with `bias` [n] added to each row of c, before that is rounded. False, and nothing is
/// done, where there is no kernel for it.
bool gemm_with_bias(const Product& product, const void* bias);

}  // namespace sinter::cuda
