#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/shape.h>

namespace sinter {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST_CASE("what a shape says of itself") {
  const Shape image{64, 1, 28, 27};
  CHECK(image.rank() == 4);
  CHECK(image.numel() == 64 * 28 * 27);
  CHECK(image[0] == 64);
  CHECK(image[3] == 27);
  CHECK(image[-1] == 27);
  CHECK(image[-4] == 64);
  CHECK(image.last() == 27);
  CHECK(image.rows() == 64 * 28);
  CHECK(image.str() == "[64, 1, 28, 27]");
  CHECK(image.sizes().size() == 4);
  CHECK(image.with(1, 3) == Shape{64, 3, 28, 27});
  CHECK(image.with(-1, 5).numel() == 64 * 28 * 5);
}

TEST_CASE("a shape without dimensions is one element, a size of 0 is none") {
  const Shape scalar;
  CHECK(scalar.rank() == 0);
  CHECK(scalar.numel() == 1);
  CHECK(scalar.last() == 1);
  CHECK(scalar.rows() == 1);
  CHECK(scalar.str() == "[]");
  CHECK(Shape{0, 5}.numel() == 0);
  CHECK(Shape{0, 5}.rows() == 0);
  CHECK(Shape{5, 0}.numel() == 0);
  CHECK(Shape{5, 0}.rows() == 5);
  CHECK(Shape{0} != scalar);
}

TEST_CASE("shapes are equal when all sizes are") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2, 3} != Shape{2, 3, 1});
  CHECK(Shape{6} != Shape{2, 3});
  const std::vector<std::int64_t> sizes{2, 3};
  CHECK(Shape(std::span<const std::int64_t>(sizes)) == Shape{2, 3});
}

TEST_CASE("sizes whose product does not fit are refused, not wrapped") {
  CHECK(Shape{70000, 70000, 70000}.numel() == 343'000'000'000'000);
  check_refused(
      [] {
        Shape{70000, 70000, 70000, 70000};
      },
      {"[70000, 70000, 70000, 70000]", "64-bit"});
  CHECK(Shape{largest}.numel() == largest);
  check_refused([] { Shape{largest, 2}; }, {"64-bit"});
  CHECK(Shape{std::int64_t{1} << 31, std::int64_t{1} << 31}.numel() == std::int64_t{1} << 62);
  check_refused([] { Shape{std::int64_t{1} << 32, std::int64_t{1} << 31}; }, {"64-bit"});
  // The product of 2^33 and 2^32 wraps to 0, that of the next two to a small positive number.
  check_refused([] { Shape{std::int64_t{1} << 33, std::int64_t{1} << 32}; }, {"64-bit"});
  check_refused([] { Shape{4294967297, 4294967297}; }, {"64-bit"});
  // Strides overflow even where a 0 makes the count 0.
  check_refused([] { Shape{0, largest, 3}; }, {"64-bit"});
  check_refused([] { Shape{largest, 3, 0}; }, {"64-bit"});
  check_refused([] { Shape({70000, 70000, 70000, 1}).with(3, 70000); }, {"64-bit"});
}

TEST_CASE("negative sizes, too many dimensions and dimensions that are not there are refused") {
  check_refused([] { Shape{3, -1}; }, {"[3, -1]", "negative"});
  check_refused([] { Shape{std::numeric_limits<std::int64_t>::min()}; }, {"negative"});
  check_refused([] { Shape({3, 4}).with(0, -2); }, {"[-2, 4]", "negative"});
  CHECK(Shape{1, 2, 3, 4, 5, 6}.numel() == 720);
  check_refused([] { Shape{1, 2, 3, 4, 5, 6, 7}; },
                {"[1, 2, 3, 4, 5, 6, 7]", "7 dimensions", "at most 6"});
  for (const int dim : {2, 7, -3, 1000, std::numeric_limits<int>::min()}) {
    check_refused([dim] { Shape({3, 4})[dim]; }, {text("dimension ", dim), "[3, 4]"});
  }
  check_refused([] { Shape{}[0]; }, {"dimension 0", "[]"});
  check_refused([] { Shape{}.with(-1, 2); }, {"dimension -1"});
}

TEST_CASE("broadcasting follows NumPy's rule") {
  const auto both = [](const Shape& a, const Shape& b, const Shape& wanted) {
    CAPTURE(a);
    CAPTURE(b);
    CHECK(broadcast("add", a, b) == wanted);
    CHECK(broadcast("add", b, a) == wanted);
  };
  both({3}, {2, 3}, {2, 3});
  both({1, 3}, {2, 1}, {2, 3});
  both({}, {2, 3}, {2, 3});
  both({}, {}, {});
  both({1}, {}, {1});
  both({5, 1, 7}, {6, 1}, {5, 6, 7});
  both({1, 1, 1, 1, 1, 2}, {3, 1, 1}, {1, 1, 1, 3, 1, 2});
  both({0}, {1}, {0});
  both({0, 3}, {3}, {0, 3});
  both({2, 1}, {0}, {2, 0});
}

TEST_CASE("what does not broadcast is refused with the op, both shapes and the place") {
  check_refused(
      [] {
        broadcast("add", {2, 3}, {4, 3});
      },
      {"add", "[2, 3]", "[4, 3]", "dimension 2", "2 and 4"});
  check_refused(
      [] {
        broadcast("multiply", {3}, {2, 4});
      },
      {"multiply", "[3]", "[2, 4]", "dimension 1", "3 and 4"});
  check_refused([] { broadcast("add", {0}, {3}); }, {"[0]", "[3]"});
  check_refused(
      [] {
        broadcast("add", {std::int64_t{1} << 40, 1}, {std::int64_t{1} << 40});
      },
      {"64-bit"});
}

}  // namespace
}  // namespace sinter
