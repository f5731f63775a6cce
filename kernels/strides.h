// Where the elements of a smaller operand lie under the shape that it is broadcast to.
#pragma once

#include <array>
#include <cstdint>

#include <sinter/runtime/shape.h>

namespace sinter {

/// Walks `shape` as if it had been expanded to `wide`: dimensions of size 1, and missing leading
/// ones, have stride 0.
class Broadcast {
 public:
  Broadcast(const Shape& shape, const Shape& wide) : rank_(wide.rank()) {
    std::int64_t stride = 1;
    for (int i = 1; i <= rank_; ++i) {
      const auto at = static_cast<std::size_t>(rank_ - i);
      sizes_[at] = wide[-i];
      if (i <= shape.rank()) {
        strides_[at] = shape[-i] == 1 ? 0 : stride;
        stride *= shape[-i];
      }
    }
  }

  /// 0 along a dimension that is repeated.
  std::int64_t stride(int dim) const { return strides_[static_cast<std::size_t>(dim)]; }
  std::int64_t last_stride() const { return rank_ == 0 ? 0 : stride(rank_ - 1); }
  /// Offset of the first element of row `row`, a row being the last dimension of `wide`.
  std::int64_t offset_of_row(std::int64_t row) const {
    std::int64_t offset = 0;
    for (int i = rank_ - 2; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      offset += row % sizes_[at] * strides_[at];
      row /= sizes_[at];
    }
    return offset;
  }

 private:
  int rank_;
  std::array<std::int64_t, Shape::max_rank> sizes_{};
  std::array<std::int64_t, Shape::max_rank> strides_{};
};

/// Whether `part` is `whole` without some of its first dimensions.
inline bool keeps_last_dimensions(const Shape& part, const Shape& whole) {
  for (int i = 1; i <= part.rank(); ++i) {
    if (part[-i] != whole[-i]) {
      return false;
    }
  }
  return true;
}

}  // namespace sinter
