// A tile of a matrix product: the part of it that the registers hold while they run along the sum.
#pragma once

#include <cstdint>

#include <sinter/kernels/cpu/isa/lanes.h>
#include <sinter/kernels/cpu/isa/transpose.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

template <class T>
using Register = math::Vector<T, simd::register_bytes>;
template <class T>
constexpr int width = simd::register_bytes / static_cast<int>(sizeof(T));

// Of 32 registers 24 hold sums, of 16 (below AVX-512) 12: the rest are operands. Sums that wait for
// each other are as many as it takes to keep two multipliers busy.
constexpr int tile_rows = simd::register_bytes == 64 ? 8 : 4;
constexpr int tile_vectors = 3;

/// One operand of a product: element p of the sum for row i (of the left one) or column i (of the
/// right one) is at[i * step + p * depth_step].
template <class T>
struct Operand {
  const T* at;
  std::int64_t step;
  std::int64_t depth_step;

  Operand moved(std::int64_t i, std::int64_t p) const {
    return {at + i * step + p * depth_step, step, depth_step};
  }
};

/// Where a tile goes: element (i, j) to at[i * ld + j], or at[j * ld + i] where `transposed`.
template <class T>
struct Result {
  T* at;
  std::int64_t ld;
  bool transposed;
  bool add;  // to what is there, which is else not read

  Result moved(std::int64_t i, std::int64_t j) const {
    return {at + (transposed ? j * ld + i : i * ld + j), ld, transposed, add};
  }
};

template <class T, int Rows, int Vectors>
SINTER_HOST_INLINE void put(const Register<T> (&sums)[Rows][Vectors], std::int64_t columns,
                            Result<T> c) {
  const std::int64_t last = columns - (Vectors - 1) * width<T>;
  const auto one = [&](T* to, Register<T> sum, auto part) {
    store(to, c.add ? load<Register<T>>(to, part) + sum : sum, part);
  };
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    T* row = c.at + i * c.ld;
#pragma GCC unroll 4
    for (int v = 0; v + 1 < Vectors; ++v) {
      one(row + v * width<T>, sums[i][v], All{});
    }
    T* end = row + (Vectors - 1) * width<T>;
    if (last == width<T>) {
      one(end, sums[i][Vectors - 1], All{});
    } else {
      one(end, sums[i][Vectors - 1], First{last});
    }
  }
}

// Not inlined, lest the compiler keep parts of the sums in memory while they grow.
template <class T, int Rows, int Vectors>
__attribute__((noinline)) void put_transposed(const T (&rows)[Rows][Vectors * width<T>],
                                              std::int64_t columns, Result<T> c) {
  std::int64_t j = 0;
  if constexpr (Rows == block<T>) {
    for (; j + Rows <= columns; j += Rows) {
      Block<T> square[Rows];
      for (int i = 0; i < Rows; ++i) {
        square[i] = load<Block<T>>(rows[i] + j, All{});
      }
      transpose(square);
      for (int i = 0; i < Rows; ++i) {
        T* to = c.at + (j + i) * c.ld;
        store(to, c.add ? load<Block<T>>(to, All{}) + square[i] : square[i], All{});
      }
    }
  }
  for (; j < columns; ++j) {
    T* to = c.at + j * c.ld;
    for (int i = 0; i < Rows; ++i) {
      to[i] = c.add ? to[i] + rows[i][j] : rows[i][j];
    }
  }
}

/// c = a b for `Rows` rows and `columns` columns, which take so many vectors, packed in b. Every
/// element is its terms added in order, whatever tile it lies in.
template <class T, int Rows, int Vectors>
void tile(std::int64_t k, const Operand<T>& a, const T* b, std::int64_t columns,
          const Result<T>& c) {
  using V = Register<T>;
  V sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sums[i][v] = V{};
    }
  }
  const std::int64_t a_step = a.step;
  const std::int64_t a_depth_step = a.depth_step;
  const T* left = a.at;
  for (std::int64_t p = 0; p < k; ++p) {
    V right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      right[v] = load<V>(b + v * width<T>, All{});
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const V factor = left[i * a_step] - V{};  // a vector of it: see math::splat
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        sums[i][v] += factor * right[v];
      }
    }
    left += a_depth_step;
    b += Vectors * width<T>;
  }
  if (c.transposed) {
    T rows[Rows][Vectors * width<T>];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        store(rows[i] + v * width<T>, sums[i][v], All{});
      }
    }
    put_transposed<T, Rows, Vectors>(rows, columns, c);
  } else {
    put<T>(sums, columns, c);
  }
}

}  // namespace
}  // namespace sinter::cpu::SINTER_CPU_PATH
