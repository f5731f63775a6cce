// Matrix products for a few rows, as in a step on one to four items. An element of the weights then
// takes part in few multiplications, and packing it first, as a full product does, would cost more
// than the product: these loops take each matrix as it lies.
#pragma once

#include <cstdint>

#include <Eigen/Core>

#include <sinter/kernels/cpu/isa/path.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

// As many elements as a register of this copy holds.
template <class T>
constexpr int packet_size = static_cast<int>(Eigen::internal::packet_traits<T>::size);
template <class T>
using Packet = Eigen::Array<T, packet_size<T>, 1>;
template <class T>
using PacketAt = Eigen::Map<const Packet<T>>;

// c = a b^T for Rows rows of a and Columns rows of b, of k elements each.
template <class T, int Rows, int Columns>
void dots(std::int64_t k, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
          bool accumulate, T* c, std::int64_t ldc) {
  Packet<T> sums[Rows][Columns];
  for (auto& row : sums) {
    for (auto& sum : row) {
      sum.setZero();
    }
  }
  const std::int64_t whole = k / packet_size<T> * packet_size<T>;
  for (std::int64_t p = 0; p < whole; p += packet_size<T>) {
    for (int j = 0; j < Columns; ++j) {
      const Packet<T> right = PacketAt<T>(b + j * ldb + p);
      for (int i = 0; i < Rows; ++i) {
        sums[i][j] += PacketAt<T>(a + i * lda + p) * right;
      }
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Columns; ++j) {
      T sum = sums[i][j].sum();
      for (std::int64_t p = whole; p < k; ++p) {
        sum += a[i * lda + p] * b[j * ldb + p];
      }
      c[i * ldc + j] = accumulate ? c[i * ldc + j] + sum : sum;
    }
  }
}

// c = a b^T; a has Rows rows, b has n.
template <class T, int Rows>
void rows_times_transposed(std::int64_t n, std::int64_t k, const T* a, std::int64_t lda, const T* b,
                           std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc) {
  // At most sixteen sums at a time, where the registers hold them and an operand.
  constexpr int columns = Rows == 4 && EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS <= 16 ? 2 : 4;
  std::int64_t j = 0;
  for (; j + columns <= n; j += columns) {
    dots<T, Rows, columns>(k, a, lda, b + j * ldb, ldb, accumulate, c + j, ldc);
  }
  for (; j < n; ++j) {
    dots<T, Rows, 1>(k, a, lda, b + j * ldb, ldb, accumulate, c + j, ldc);
  }
}

// One row of c = a^T b for a and b of K rows: each row of b times one element of a.
template <class T, int K>
void combine(std::int64_t n, const T* a, std::int64_t lda, const T* __restrict b, std::int64_t ldb,
             bool accumulate, T* __restrict c) {
  T factors[K];
  for (int p = 0; p < K; ++p) {
    factors[p] = a[p * lda];
  }
  for (std::int64_t j = 0; j < n; ++j) {
    T sum = accumulate ? c[j] : T(0);
    for (int p = 0; p < K; ++p) {
      sum += factors[p] * b[p * ldb + j];
    }
    c[j] = sum;
  }
}

// c = a^T b; a and b have K rows, c has m.
template <class T, int K>
void transposed_times_rows(std::int64_t m, std::int64_t n, const T* a, std::int64_t lda, const T* b,
                           std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    combine<T, K>(n, a + i, lda, b, ldb, accumulate, c + i * ldc);
  }
}

// Does the product where it is one of few rows and faster here than in Eigen, and says whether it
// did. One row times a matrix is as fast in Eigen.
template <class T>
bool few_rows(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
              const T* a, std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c,
              std::int64_t ldc) {
  if (!transpose_a && transpose_b && m >= 2 && m <= 4) {
    const auto run = m == 2   ? rows_times_transposed<T, 2>
                     : m == 3 ? rows_times_transposed<T, 3>
                              : rows_times_transposed<T, 4>;
    run(n, k, a, lda, b, ldb, accumulate, c, ldc);
    return true;
  }
  if (transpose_a && !transpose_b && k >= 1 && k <= 4) {
    const auto run = k == 1   ? transposed_times_rows<T, 1>
                     : k == 2 ? transposed_times_rows<T, 2>
                     : k == 3 ? transposed_times_rows<T, 3>
                              : transposed_times_rows<T, 4>;
    run(m, n, a, lda, b, ldb, accumulate, c, ldc);
    return true;
  }
  return false;
}

}  // namespace
}  // namespace sinter::cpu::SINTER_CPU_PATH
