// Dropout of rows in registers: the mask of all that a thread holds of a row is one word, drawn
// while the row is on its way.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/kernels/cuda/tail.cuh>

namespace sinter::cuda {

/// The mask of this thread's elements of a row; `Row` is its RowValues.
template <class Row>
class RowMask {
 public:
  /// `first`: the number in the tensor of the row's first element. Before rows are loaded.
  __device__ RowMask(const tile::Mask& mask, std::int64_t first, std::int64_t columns)
      : mask_(mask), first_(first) {
    if (mask.kind == tile::Mask::Kind::triton) {
      draw_held(columns);
    }
  }
  /// Once loads are on their way.
  __device__ void draw(std::int64_t columns) {
    if (mask_.kind == tile::Mask::Kind::lanes) {
      draw_held(columns);
    }
  }

  /// Of a row that is held, every value becomes f(value) times the scale, or 0.
  template <class F>
  __device__ void drop(Row& row, F f) const {
    if constexpr (Row::vectors > 0) {
#pragma unroll
      for (int v = 0; v < Row::vectors; ++v) {
#pragma unroll
        for (int e = 0; e < Row::per_vector; ++e) {
          float& value = row.vector[v].value[e];
          value = (bits_ >> (v * Row::per_vector + e) & 1) != 0 ? f(value) * mask_.scale : 0.0f;
        }
      }
    }
  }
  /// The same of one value, of a row that is not held; else it has been done.
  template <class F>
  __device__ float dropped(std::int64_t column, float value, F f) const {
    if constexpr (Row::vectors > 0) {
      return value;
    } else {
      return keeps(kept_of<1>(mask_, first_ + column), 0) ? f(value) * mask_.scale : 0.0f;
    }
  }

 private:
  __device__ void draw_held(std::int64_t columns) {
    static_assert(Row::vectors * Row::per_vector <= 32, "a bit for each element");
    if constexpr (Row::vectors > 0) {
      bits_ = 0;
#pragma unroll
      for (int v = 0; v < Row::vectors; ++v) {
        const std::int64_t at = Row::place(v);
        if (at < columns) {
          const auto kept = kept_of<Row::per_vector>(mask_, first_ + at);
#pragma unroll
          for (int q = 0; q < (Row::per_vector + 3) / 4; ++q) {
            bits_ |= kept[q] << (v * Row::per_vector + 4 * q);
          }
        }
      }
    }
  }

  const tile::Mask& mask_;
  std::int64_t first_;
  std::uint32_t bits_ = 0;
};

}  // namespace sinter::cuda
