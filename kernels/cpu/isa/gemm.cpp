// Matrix products by Eigen, but for those of few rows, on the calling thread.
#include <Eigen/Core>

#include <sinter/kernels/cpu/isa/few_rows.h>
#include <sinter/kernels/cpu/isa/path.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

// A row-major matrix, or the transpose of one: the same memory read column-major.
template <class T, bool Transposed>
using Matrix = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic,
                                              Transposed ? Eigen::ColMajor : Eigen::RowMajor>,
                          Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T, bool TransposeA, bool TransposeB>
void product(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda,
             const T* b, std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc) {
  const Matrix<T, TransposeA> left(a, m, k, Eigen::OuterStride<>(lda));
  const Matrix<T, TransposeB> right(b, k, n, Eigen::OuterStride<>(ldb));
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned,
             Eigen::OuterStride<>>
      out(c, m, n, Eigen::OuterStride<>(ldc));
  if (accumulate) {
    out.noalias() += left * right;
  } else {
    out.noalias() = left * right;
  }
}

}  // namespace

void fix_block_sizes() {
  // Not those of this machine: how Eigen groups its sums follows from them, and products are cut
  // where that never shows (kernels/cpu/matrix.cpp). 1 MiB is also enough for whole tiles at any
  // depth.
  Eigen::setCpuCacheSizes(32 << 10, 1 << 20, 16 << 20);
}

template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c,
          std::int64_t ldc) {
  if (few_rows(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, accumulate, c, ldc)) {
    return;
  }
  const auto run = transpose_a ? (transpose_b ? product<T, true, true> : product<T, true, false>)
                               : (transpose_b ? product<T, false, true> : product<T, false, false>);
  run(m, n, k, a, lda, b, ldb, accumulate, c, ldc);
}

template void gemm<float>(bool, bool, std::int64_t, std::int64_t, std::int64_t, const float*,
                          std::int64_t, const float*, std::int64_t, bool, float*, std::int64_t);
template void gemm<double>(bool, bool, std::int64_t, std::int64_t, std::int64_t, const double*,
                           std::int64_t, const double*, std::int64_t, bool, double*, std::int64_t);

}  // namespace sinter::cpu::SINTER_CPU_PATH
