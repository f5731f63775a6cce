// Packing: operands of a matrix product copied into the order in which tiles read them.
#pragma once

#include <cstdint>

#include <sinter/kernels/cpu/isa/tile.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

SINTER_HOST_INLINE std::int64_t quotient_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Calls body(left, columns, vectors) for each panel of n columns: as wide as tiles are, but none
/// of one vector beside others, for its tiles load nearly as much as they multiply. A panel's
/// elements begin at left * k of what is packed.
template <class T, class Body>
SINTER_HOST_INLINE void for_panels(std::int64_t n, Body body) {
  for (std::int64_t left = 0; left < n;) {
    const std::int64_t more = quotient_up(n - left, width<T>);
    const int vectors = more == 1 ? 1 : more == 2 || more == 4 ? 2 : tile_vectors;
    const std::int64_t whole = vectors * width<T>;
    body(left, n - left < whole ? n - left : whole, vectors);
    left += whole;
  }
}

/// Columns that lie along memory: element p of the sum is a row of it. What fills up the last
/// vector repeats the last column, here and below: its lanes then raise no floating-point exception
/// that the column does not.
template <class T>
void pack_rows(const Operand<T>& b, std::int64_t columns, std::int64_t k, std::int64_t padded,
               T* to) {
  const std::int64_t whole = columns / width<T> * width<T>;
  for (std::int64_t p = 0; p < k; ++p) {
    const T* from = b.at + p * b.depth_step;
    for (std::int64_t j = 0; j < whole; j += width<T>) {
      store(to + j, load<Register<T>>(from + j, All{}), All{});
    }
    if (whole < padded) {
      store(to + whole, from[columns - 1] - Register<T>{}, All{});
      store(to + whole, load<Register<T>>(from + whole, First{columns - whole}),
            First{columns - whole});
    }
    to += padded;
  }
}

/// Columns that lie across memory, as the rows of a transposed matrix.
template <class T>
void pack_columns(const Operand<T>& b, std::int64_t columns, std::int64_t k, std::int64_t padded,
                  T* to) {
  constexpr int size = block<T>;
  for (std::int64_t j = 0; j < padded; j += size) {
    const T* from[size];
    for (int i = 0; i < size; ++i) {
      from[i] = b.at + (j + i < columns ? j + i : columns - 1) * b.step;
    }
    std::int64_t p = 0;
    for (; p + size <= k; p += size) {
      Block<T> square[size];
      for (int i = 0; i < size; ++i) {
        square[i] = load<Block<T>>(from[i] + p, All{});
      }
      transpose(square);
      for (int i = 0; i < size; ++i) {
        store(to + (p + i) * padded + j, square[i], All{});
      }
    }
    for (; p < k; ++p) {
      for (int i = 0; i < size; ++i) {
        to[p * padded + j + i] = from[i][p];
      }
    }
  }
}

/// All columns, in panels filled up with zeros to whole vectors.
template <class T>
void pack_panels(std::int64_t n, std::int64_t k, const Operand<T>& b, T* to) {
  const auto pack = b.step == 1 ? pack_rows<T> : pack_columns<T>;
  for_panels<T>(n, [&](std::int64_t left, std::int64_t columns, int vectors) {
    pack(b.moved(left, 0), columns, k, vectors * width<T>, to + left * k);
  });
}

/// Rows of a left operand that, lying across memory, make whole lines of the cache.
template <class T>
constexpr int group_rows = 64 / static_cast<int>(sizeof(T));

/// Such rows, tile by tile.
template <class T>
void pack_group(const Operand<T>& a, std::int64_t k, T* to) {
  for (std::int64_t p = 0; p < k; ++p) {
    const T* from = a.at + p * a.depth_step;
    for (int i = 0; i < group_rows<T>; i += tile_rows) {
      std::memcpy(to + i * k + p * tile_rows, from + i, tile_rows * sizeof(T));
    }
  }
}

}  // namespace
}  // namespace sinter::cpu::SINTER_CPU_PATH
