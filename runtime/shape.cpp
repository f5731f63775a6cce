#include <algorithm>
#include <ostream>

#include <sinter/runtime/error.h>
#include <sinter/runtime/shape.h>

namespace sinter {
namespace {

std::string list(std::span<const std::int64_t> sizes) {
  std::string out = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return out + "]";
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  // Shapes are made many times in a step: the sentences only where they are needed.
  if (sizes.size() > max_rank) [[unlikely]] {
    throw Error(text("shape ", list(sizes), " has ", sizes.size(), " dimensions; at most ",
                     max_rank, " are supported"));
  }
  // The product of the non-zero sizes is checked too: strides are made of it, whatever the count.
  std::int64_t strides = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = sizes[i];
    if (size < 0) [[unlikely]] {
      throw Error(text("shape ", list(sizes), " has a negative dimension"));
    }
    if (__builtin_mul_overflow(strides, std::max<std::int64_t>(size, 1), &strides)) [[unlikely]] {
      throw Error(text("shape ", list(sizes), " has more elements than a 64-bit count holds"));
    }
    sizes_[i] = size;
    numel_ *= size;
  }
}

void Shape::refuse_dimension(int dim) const {
  throw Error(text("dimension ", dim, " does not exist in shape ", str()));
}

std::int64_t Shape::rows() const {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < rank_; ++i) {
    rows *= sizes_[static_cast<std::size_t>(i)];
  }
  return rows;
}

Shape Shape::with(int dim, std::int64_t size) const {
  auto sizes = sizes_;
  sizes[static_cast<std::size_t>(axis(dim))] = size;
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank_)));
}

std::string Shape::str() const { return list(sizes()); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::max_rank> sizes{};
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t from_a = i <= a.rank() ? a[-i] : 1;
    const std::int64_t from_b = i <= b.rank() ? b[-i] : 1;
    check(from_a == from_b || from_a == 1 || from_b == 1, op, ": shapes ", a, " and ", b,
          " do not broadcast: counted from the last, dimension ", i, " is ", from_a, " and ",
          from_b);
    sizes[static_cast<std::size_t>(rank - i)] = from_a == 1 ? from_b : from_a;
  }
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank)));
}

}  // namespace sinter
