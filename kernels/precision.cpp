#include <atomic>

#include <sinter/kernels/precision.h>

namespace sinter {
namespace {

std::atomic<MatmulPrecision> current{MatmulPrecision::high};

}  // namespace

void set_matmul_precision(MatmulPrecision precision) { current = precision; }
MatmulPrecision matmul_precision() { return current; }

}  // namespace sinter
