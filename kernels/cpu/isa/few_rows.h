// Matrix products for a few rows, as in a step on one to sixteen items. An element of the right
// operand then takes part in few multiplications, and packing it first, as a full product does,
// would cost too much beside them: these loops take each matrix as it lies.
#pragma once

#include <cstdint>

#include <sinter/kernels/cpu/isa/tile.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

/// The sums of the lanes of some vectors, in the lanes of vectors of 16 bytes: halves are added to
/// each other.
template <class V, int Count, class T>
SINTER_HOST_INLINE void totals(const V (&x)[Count], T (&out)[Count]) {
  if constexpr (sizeof(V) > 16) {
    math::Vector<T, sizeof(V) / 2> sums[Count];
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      math::Vector<T, sizeof(V) / 2> halves[2];
      std::memcpy(halves, &x[i], sizeof halves);
      sums[i] = halves[0] + halves[1];
    }
    totals(sums, out);
  } else {
    constexpr int size = 16 / static_cast<int>(sizeof(T));
#pragma GCC unroll 8
    for (int i = 0; i < Count; i += size) {
      V square[size];
#pragma GCC unroll 8
      for (int j = 0; j < size; ++j) {
        square[j] = i + j < Count ? x[i + j] : V{};
      }
      transpose(square);
      if constexpr (size == 4) {
        square[0] += square[2];
        square[1] += square[3];
      }
      square[0] += square[1];
      std::memcpy(out + i, square, (Count - i < size ? Count - i : size) * sizeof(T));
    }
  }
}

/// Of `left` rows as many as to take next, so that groups of at most `most` are even.
SINTER_HOST_INLINE std::int64_t next_group(std::int64_t left, std::int64_t most) {
  const std::int64_t groups = (left + most - 1) / most;
  return (left + groups - 1) / groups;
}

// As many rows at a time as leave registers for the sums of four columns, and the operands.
constexpr int dots_rows = simd::register_bytes == 64 ? 4 : 3;

/// Each element of c as a sum along both operands' memory.
template <class T, int Rows, int Columns>
void dots(std::int64_t k, const Operand<T>& a, const Operand<T>& b, const Result<T>& c) {
  using V = Register<T>;
  V sums[Rows][Columns];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) {
      sums[i][j] = V{};
    }
  }
  for_lanes<V>(k, [&](std::int64_t p, auto part) {
    V left[Rows];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      left[i] = load<V>(a.at + i * a.step + p, part);
    }
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) {
      const V right = load<V>(b.at + j * b.step + p, part);
#pragma GCC unroll 8
      for (int i = 0; i < Rows; ++i) {
        sums[i][j] += left[i] * right;
      }
    }
  });
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    T row[Columns];
    totals(sums[i], row);
    T* to = c.at + i * c.ld;
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) {
      to[j] = c.add ? to[j] + row[j] : row[j];
    }
  }
}

template <class T, int Columns>
void dots_of_columns(std::int64_t m, std::int64_t k, const Operand<T>& a, const Operand<T>& b,
                     const Result<T>& c) {
  for (std::int64_t i = 0; i < m;) {
    const std::int64_t rows = next_group(m - i, dots_rows);
    const auto run = rows == 1   ? dots<T, 1, Columns>
                     : rows == 2 ? dots<T, 2, Columns>
                     : rows == 3 ? dots<T, 3, Columns>
                                 : dots<T, dots_rows, Columns>;
    run(k, a.moved(i, 0), b, c.moved(i, 0));
    i += rows;
  }
}

template <class T>
void product_by_dots(std::int64_t m, std::int64_t n, std::int64_t k, const Operand<T>& a,
                     const Operand<T>& b, const Result<T>& c) {
  std::int64_t j = 0;
  for (; m == 1 && j + 8 <= n; j += 8) {  // as many sums as keep two multipliers busy
    dots<T, 1, 8>(k, a, b.moved(j, 0), c.moved(0, j));
  }
  for (; j + 4 <= n; j += 4) {
    dots_of_columns<T, 4>(m, k, a, b.moved(j, 0), c.moved(0, j));
  }
  for (; j < n; ++j) {
    dots_of_columns<T, 1>(m, k, a, b.moved(j, 0), c.moved(0, j));
  }
}

/// A V's columns of c (+)= a b for `Rows` rows of a and `Depth` rows of b.
template <class V, int Rows, int Depth, class T>
SINTER_HOST_INLINE void combine_at(const T (&factors)[Rows][Depth], const T* b, std::int64_t ldb,
                                   bool add, T* c, std::int64_t ldc) {
  V right[Depth];
#pragma GCC unroll 8
  for (int p = 0; p < Depth; ++p) {
    right[p] = load<V>(b + p * ldb, All{});
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
    T* to = c + i * ldc;
    V sum = add ? load<V>(to, All{}) : V{};
#pragma GCC unroll 8
    for (int p = 0; p < Depth; ++p) {
      sum += (factors[i][p] - V{}) * right[p];  // a vector of it: see math::splat
    }
    store(to, sum, All{});
  }
}

/// c (+)= a b for `Rows` rows of a and `Depth` rows of b, which lie along memory.
template <class T, int Rows, int Depth>
void combine(std::int64_t n, const Operand<T>& a, Operand<T> b, Result<T> c) {
  T factors[Rows][Depth];
  for (int i = 0; i < Rows; ++i) {
    for (int p = 0; p < Depth; ++p) {
      factors[i][p] = a.at[i * a.step + p * a.depth_step];
    }
  }
  std::int64_t j = 0;
  for (; j + width<T> <= n; j += width<T>) {
    combine_at<Register<T>>(factors, b.at + j, b.depth_step, c.add, c.at + j, c.ld);
  }
  for (; j < n; ++j) {
    combine_at<T>(factors, b.at + j, b.depth_step, c.add, c.at + j, c.ld);
  }
}

template <class T, int Depth>
void combine_for_rows(std::int64_t m, std::int64_t n, const Operand<T>& a, const Operand<T>& b,
                      const Result<T>& c) {
  for (std::int64_t i = 0; i < m;) {
    const std::int64_t rows = next_group(m - i, 4);
    auto run = combine<T, 1, Depth>;
    if constexpr (Depth <= 4) {
      run = rows == 1   ? run
            : rows == 2 ? combine<T, 2, Depth>
            : rows == 3 ? combine<T, 3, Depth>
                        : combine<T, 4, Depth>;
    }
    run(n, a.moved(i, 0), b, c.moved(i, 0));
    i += rows;
  }
}

template <class T>
void product_by_rows(std::int64_t m, std::int64_t n, std::int64_t k, const Operand<T>& a,
                     const Operand<T>& b, Result<T> c) {
  std::int64_t p = 0;
  const auto pass = [&](auto run, std::int64_t depth) {
    for (; p + depth <= k; p += depth) {
      run(m, n, a.moved(0, p), b.moved(0, p), c);
      c.add = true;
    }
  };
  if (m == 1) {
    pass(combine_for_rows<T, 8>, 8);  // reads and writes c half as often
  }
  pass(combine_for_rows<T, 4>, 4);
  pass(combine_for_rows<T, 3>, 3);
  pass(combine_for_rows<T, 2>, 2);
  pass(combine_for_rows<T, 1>, 1);
}

/// Does the product where it is one of few rows and faster here than packed, and says whether it
/// did. No piece of a larger product may come here (kernels/cpu/matrix.cpp): sums along memory are
/// added up in another order than in tiles.
template <class T>
bool few_rows(std::int64_t m, std::int64_t n, std::int64_t k, const Operand<T>& a,
              const Operand<T>& b, const Result<T>& c) {
  if (k == 0) {
    return false;
  }
  if (m <= 16 && a.depth_step == 1 && b.depth_step == 1) {
    product_by_dots(m, n, k, a, b, c);
    return true;
  }
  // Outer products too: they mostly write c.
  if ((m == 1 || (m <= 8 && n >= 96) || k <= 4) && b.step == 1) {
    product_by_rows(m, n, k, a, b, c);
    return true;
  }
  return false;
}

}  // namespace
}  // namespace sinter::cpu::SINTER_CPU_PATH
