// add, subtract, multiply, divide with broadcasting, affine and accumulate: for one rounding each
// the right answer is that of the plain C++ operator on the elements that NumPy's rule pairs up.

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

// The element of `t` that stands at `place` (of the row-major result of shape `wide`).
template <class T>
T element(const Tensor& t, const Shape& wide, std::int64_t place) {
  std::int64_t offset = 0;
  std::int64_t stride = 1;
  for (int i = 1; i <= wide.rank(); ++i) {
    const std::int64_t coordinate = place % wide[-i];
    place /= wide[-i];
    if (i <= t.rank()) {
      offset += t.size(-i) == 1 ? 0 : coordinate * stride;
      stride *= t.size(-i);
    }
  }
  return t.data<T>()[offset];
}

template <class T>
std::string check_all(const Shape& a_shape, const Shape& b_shape, Numbers& numbers) {
  const Tensor a = random_tensor<T>(a_shape, numbers, -3, 3);
  const Tensor b = random_tensor<T>(b_shape, numbers, 0.5, 3);
  const Shape wide = broadcast("test", a_shape, b_shape);
  std::string wrong;
  const auto check = [&](const auto& op, auto f) {
    Tensor y = Tensor::full(wide, not_a_number, dtype_of<T>);
    op(a, b, y);
    for (std::int64_t i = 0; i < wide.numel(); ++i) {
      const T wanted = f(element<T>(a, wide, i), element<T>(b, wide, i));
      if (y.data<T>()[i] != wanted && wrong.empty()) {
        wrong = text(op.name, " ", a_shape, " ", b_shape, ": element ", i, " is ", y.data<T>()[i],
                     ", not ", wanted);
      }
    }
  };
  check(ops::add, [](T p, T q) { return p + q; });
  check(ops::subtract, [](T p, T q) { return p - q; });
  check(ops::multiply, [](T p, T q) { return p * q; });
  check(ops::divide, [](T p, T q) { return p / q; });
  return wrong;
}

TEST_CASE_TEMPLATE("the broadcasts that bias and scale are made of", T, float, double) {
  Numbers numbers(1);
  const std::pair<Shape, Shape> pairs[] = {{{3}, {2, 3}},
                                           {{1, 3}, {2, 1}},
                                           {{}, {2, 3}},
                                           {{}, {}},
                                           {{1}, {}},
                                           {{1}, {4}},
                                           {{2, 3}, {2, 3}},
                                           {{2, 3}, {2, 1}},
                                           {{5, 1, 7}, {6, 1}},
                                           {{2, 1, 3, 1}, {4, 1, 5}},
                                           {{1, 1, 1, 1, 1, 2}, {3, 1, 1}},
                                           {{257}, {33, 257}},
                                           {{33, 1}, {33, 257}},
                                           {{0}, {1}},
                                           {{0, 3}, {3}},
                                           {{2, 1}, {0}},
                                           {{70000}, {1}},
                                           {{3, 40000}, {40000}},
                                           {{50000, 1}, {1, 2}}};
  for (const auto& [a, b] : pairs) {
    CHECK(check_all<T>(a, b, numbers) == "");
    CHECK(check_all<T>(b, a, numbers) == "");
  }
}

TEST_CASE_TEMPLATE("broadcasts of any shape", T, float, double) {
  Numbers numbers(2);
  for (int turn = 0; turn < 300; ++turn) {
    std::array<std::vector<std::int64_t>, 2> sizes;
    const std::int64_t rank = numbers.integer(0, 6);
    for (std::int64_t i = 0; i < rank; ++i) {
      const std::int64_t size = numbers.integer(1, 4);
      for (auto& side : sizes) {
        side.push_back(numbers.integer(0, 2) == 0 ? 1 : size);
      }
    }
    // Leading dimensions may be missing.
    for (auto& side : sizes) {
      side.erase(side.begin(), side.begin() + numbers.integer(0, rank));
    }
    CHECK(check_all<T>(Shape(sizes[0]), Shape(sizes[1]), numbers) == "");
  }
}

TEST_CASE_TEMPLATE("the result may be an operand", T, float, double) {
  Numbers numbers(3);
  const Tensor a = random_tensor<T>({50000}, numbers, -1, 1);
  const Tensor b = random_tensor<T>({50000}, numbers, -1, 1);
  Tensor wanted = Tensor::zeros({50000}, dtype_of<T>);
  ops::multiply(a, b, wanted);
  Tensor y = a.clone();
  ops::multiply(y, b, y);
  CHECK(different(y, wanted) == "");
}

TEST_CASE_TEMPLATE("division and overflow follow IEEE 754", T, float, double) {
  const Tensor a = Tensor::from(std::vector<T>{1, -1, 0, static_cast<T>(infinity)}, {4});
  const Tensor b = Tensor::from(std::vector<T>{0, 0, 0, static_cast<T>(infinity)}, {4});
  Tensor y = Tensor::zeros({4}, dtype_of<T>);
  ops::divide(a, b, y);
  CHECK(apart_by_ulps<T>(y, {infinity, -infinity, not_a_number, not_a_number}, 0) == "");
}

TEST_CASE_TEMPLATE("affine: scale, then shift", T, float, double) {
  Numbers numbers(4);
  for (const std::int64_t n : {0, 1, 7, 33, 1000, 70001}) {
    const Tensor x = random_tensor<T>({n}, numbers, -10, 10);
    Tensor y = Tensor::full({n}, not_a_number, dtype_of<T>);
    ops::affine(x, y, 0.3, -1.7);
    std::vector<Real> wanted;
    for (const Real value : reals(x)) {
      wanted.push_back(value * static_cast<T>(0.3) + static_cast<T>(-1.7));
    }
    // One rounding of a product of at most 3, one of a sum.
    CHECK(apart<T>(y, wanted,
                   [&](std::size_t i) { return ulp<T>(wanted[i]) / 2 + ulp<T>(2.9L) / 2; }) == "");
    Tensor in_place = x.clone();
    ops::affine(in_place, in_place, 0.3, -1.7);
    CHECK(different(in_place, y) == "");
  }
  Tensor y = Tensor::full({3}, 2, dtype_of<T>);
  ops::affine(y, y, 1, 0);
  CHECK(y.to_vector<T>() == std::vector<T>{2, 2, 2});
}

TEST_CASE_TEMPLATE("accumulate adds to what is there", T, float, double) {
  Numbers numbers(5);
  for (const std::int64_t n : {0, 1, 31, 70001}) {
    const Tensor x = random_tensor<T>({n}, numbers, -1, 1);
    Tensor y = random_tensor<T>({n}, numbers, -1, 1);
    std::vector<Real> wanted;
    for (std::int64_t i = 0; i < n; ++i) {
      wanted.push_back(static_cast<T>(y.data<T>()[i] + x.data<T>()[i]));
    }
    ops::accumulate(x, y);
    CHECK(apart_by_ulps<T>(y, wanted, 0) == "");
  }
  Tensor twice = Tensor::full({5}, 1.5, dtype_of<T>);
  ops::accumulate(twice, twice);
  CHECK(twice.to_vector<T>() == std::vector<T>(5, T(3)));
}

TEST_CASE("16-bit operands are added in float32 and rounded once") {
  // 1 + 2^-11 is halfway between two float16, and to even is 1; with 2^-20 more it is above.
  const Tensor a = Tensor::from({float16(1.0f), float16(1.0f)}, {2});
  const Tensor b = Tensor::from({float16(0x1p-11f), float16(0x1p-11f + 0x1p-20f)}, {2});
  Tensor y = Tensor::zeros({2}, DType::float16);
  ops::add(a, b, y);
  CHECK(y.to(DType::float32).to_vector<float>() == std::vector<float>{1, 1 + 0x1p-10f});
}

}  // namespace
}  // namespace sinter
