// The sizes of a tensor's dimensions, held inline; all arithmetic on them is 64-bit and checked.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

namespace sinter {

/// Up to `max_rank` dimensions, row-major. Shape{} has no dimension: a scalar of one element.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  /// Throws Error for a negative size, for too many dimensions, and for sizes whose product does
  /// not fit 63 bits.
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  /// Elements in all; 1 for a scalar.
  std::int64_t numel() const { return numel_; }
  /// Size of dimension `dim`; negative counts from the last. Throws Error out of range.
  std::int64_t operator[](int dim) const { return sizes_[static_cast<std::size_t>(axis(dim))]; }
  /// Size of the last dimension, 1 for a scalar.
  std::int64_t last() const { return rank_ == 0 ? 1 : sizes_[static_cast<std::size_t>(rank_ - 1)]; }
  /// Elements divided by the last dimension: the rows of the matrix that a layer sees.
  std::int64_t rows() const;
  /// The same sizes but for dimension `dim` (negative counts from the last).
  Shape with(int dim, std::int64_t size) const;
  std::span<const std::int64_t> sizes() const {
    return {sizes_.data(), static_cast<std::size_t>(rank_)};
  }
  /// "[64, 1, 28, 28]"
  std::string str() const;

  /// Sizes beyond the rank are always 0.
  bool operator==(const Shape& other) const = default;

 private:
  int axis(int dim) const {
    const int from_front = dim < 0 ? dim + rank_ : dim;
    if (from_front < 0 || from_front >= rank_) [[unlikely]] {
      refuse_dimension(dim);
    }
    return from_front;
  }
  [[noreturn]] void refuse_dimension(int dim) const;

  std::array<std::int64_t, max_rank> sizes_{};
  std::int64_t numel_ = 1;
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The shape that both broadcast to by NumPy's rule (aligned at the last dimension, sizes equal or
/// 1). Throws Error naming `op` and both shapes where they do not fit.
Shape broadcast(const char* op, const Shape& a, const Shape& b);

}  // namespace sinter
