// sum_to, softmax and argmax against loops in long double.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

struct Sums {
  std::vector<Real> exact;
  std::vector<Real> magnitude;  // sums of absolute values, which rounding errors are measured by
  std::int64_t terms = 1;       // of each sum
};

// Adds every element of x to the one of y that it was broadcast from.
Sums add_up(const Tensor& x, const Shape& y) {
  Sums sums;
  sums.exact.resize(static_cast<std::size_t>(y.numel()));
  sums.magnitude.resize(static_cast<std::size_t>(y.numel()));
  sums.terms = y.numel() == 0 ? 0 : x.numel() / y.numel();
  const std::vector<Real> values = reals(x);
  for (std::int64_t place = 0; place < x.numel(); ++place) {
    std::int64_t rest = place;
    std::int64_t stride = 1;
    std::int64_t offset = 0;
    for (int i = 1; i <= x.rank(); ++i) {
      const std::int64_t coordinate = rest % x.size(-i);
      rest /= x.size(-i);
      if (i <= y.rank()) {
        offset += y[-i] == 1 ? 0 : coordinate * stride;
        stride *= y[-i];
      }
    }
    const auto at = static_cast<std::size_t>(offset);
    sums.exact[at] += values[static_cast<std::size_t>(place)];
    sums.magnitude[at] += std::abs(values[static_cast<std::size_t>(place)]);
  }
  return sums;
}

template <class T>
std::string check_sum(const Shape& from, const Shape& to, Numbers& numbers) {
  const Tensor x = random_tensor<T>(from, numbers, -1, 3);
  Sums sums = add_up(x, to);
  const Real epsilon = std::numeric_limits<T>::epsilon();
  // At most: 32 additions in a row, then one for each 32 rows.
  const Real additions = 40 + Real(sums.terms) / 32;
  std::string wrong;
  for (const bool accumulate : {false, true}) {
    Tensor y = Tensor::full(to, accumulate ? 100 : not_a_number, dtype_of<T>);
    ops::sum_to(x, y, accumulate);
    std::vector<Real> wanted = sums.exact;
    for (Real& value : wanted) {
      value += accumulate ? 100 : 0;
    }
    wrong += apart<T>(y, wanted, [&](std::size_t i) {
      return epsilon * (additions * sums.magnitude[i] + std::abs(wanted[i]));
    });
  }
  return wrong.empty() ? wrong : text(from, " to ", to, ": ", wrong);
}

TEST_CASE_TEMPLATE("sums along every kind of broadcast, overwriting and accumulating", T, float,
                   double) {
  Numbers numbers(1);
  const std::pair<Shape, Shape> pairs[] = {{{2, 3}, {3}},
                                           {{2, 3}, {1, 3}},
                                           {{2, 3}, {2, 1}},
                                           {{2, 3}, {}},
                                           {{2, 3}, {1, 1}},
                                           {{2, 3}, {2, 3}},
                                           {{}, {}},
                                           {{7}, {1}},
                                           {{2, 3, 4}, {3, 4}},
                                           {{2, 3, 4}, {3, 1}},
                                           {{2, 3, 4}, {1, 4}},
                                           {{2, 3, 4}, {2, 1, 4}},
                                           {{2, 3, 4}, {2, 3, 1}},
                                           {{2, 3, 4}, {4}},
                                           {{2, 1, 3, 1, 4}, {2, 1, 1, 1, 4}},
                                           {{257, 10}, {10}},
                                           {{257, 300}, {300}},
                                           {{1000, 1}, {1}},
                                           {{33, 513}, {513}},
                                           {{1, 777}, {777}},
                                           {{70000}, {}},
                                           {{257, 301}, {257, 1}},
                                           {{20000, 3}, {3}},
                                           {{3, 20000}, {20000}},
                                           {{3, 20000}, {3, 1}},
                                           {{0, 3}, {3}},
                                           {{0, 3}, {1, 3}},
                                           {{3, 0}, {3, 1}},
                                           {{3, 0}, {}},
                                           {{0}, {0}},
                                           {{0, 3}, {}},
                                           {{3, 0}, {0}},
                                           {{2, 2, 2, 2, 2, 2}, {2, 1, 2, 1, 2}}};
  for (const auto& [from, to] : pairs) {
    CHECK(check_sum<T>(from, to, numbers) == "");
  }
}

TEST_CASE("the gradient of a bias at batch 257, against a sum in long double") {
  Numbers numbers(2);
  for (const std::int64_t rows : {1, 31, 32, 33, 255, 256, 257, 1025}) {
    for (const std::int64_t columns : {1, 2, 63, 64, 65, 255, 256, 257, 600}) {
      CHECK(check_sum<float>({rows, columns}, {columns}, numbers) == "");
      CHECK(check_sum<double>({rows, columns}, {columns}, numbers) == "");
    }
  }
  // A large first row must not swallow the many small ones after it.
  std::vector<float> values(257 * 4, 1.0f);
  values[0] = values[1] = values[2] = values[3] = 16777216.0f;
  Tensor y = Tensor::zeros({4});
  ops::sum_to(Tensor::from(values, {257, 4}), y, false);
  for (const float sum : y.to_vector<float>()) {
    CHECK(std::abs(sum - 16777472.0f) <= 32);
  }
}

TEST_CASE("the sum of all is exact to one rounding") {
  // 2^24 and then ones: a float32 sum would stand still.
  std::vector<float> values(100001, 1.0f);
  values[0] = 16777216.0f;
  Tensor y = Tensor::zeros({});
  ops::sum_to(Tensor::from(values, {100001}), y, false);
  CHECK(y.item() == 16877216.0);
  const Tensor nan = Tensor::from({1.0f, static_cast<float>(not_a_number)}, {2});
  ops::sum_to(nan, y, false);
  CHECK(std::isnan(y.item()));
}

template <class T>
std::vector<Real> softmax_of(const Tensor& x) {
  const std::vector<Real> values = reals(x);
  const auto n = static_cast<std::size_t>(x.shape().last());
  std::vector<Real> out;
  for (std::size_t row = 0; row < values.size(); row += n) {
    Real largest = values[row];
    for (std::size_t j = 0; j < n; ++j) {
      largest = std::max(largest, values[row + j]);
    }
    Real sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      sum += std::exp(values[row + j] - largest);
    }
    for (std::size_t j = 0; j < n; ++j) {
      out.push_back(std::exp(values[row + j] - largest) / sum);
    }
  }
  return out;
}

TEST_CASE_TEMPLATE("softmax over the last dimension", T, float, double) {
  Numbers numbers(3);
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 10}, Shape{7}, Shape{2, 3, 33}, Shape{65, 1000},
                             Shape{0, 4}, Shape{4, 0}, Shape{}}) {
    const Tensor x = random_tensor<T>(shape, numbers, -20, 20);
    Tensor y = Tensor::full(shape, not_a_number, dtype_of<T>);
    ops::softmax(x, y, {});
    CAPTURE(shape);
    // In float64 the argument's rounding, at most 40 epsilons, and a thousand additions are seen.
    CHECK(apart_by_ulps<T>(y, x.numel() == 0 ? std::vector<Real>{} : softmax_of<T>(x),
                           std::is_same_v<T, float> ? 0.51 : 60) == "");
  }
}

TEST_CASE_TEMPLATE("softmax of extreme rows", T, float, double) {
  const std::vector<T> rows{800, 1, 1, -2000, -2000, -2000, T(1e30), T(-1e30), 0};
  Tensor y = Tensor::zeros({3, 3}, dtype_of<T>);
  ops::softmax(Tensor::from(rows, {3, 3}), y, {});
  const Real third = 1 / 3.0L;
  CHECK(apart_by_ulps<T>(y, {1, std::exp(-799.0L), std::exp(-799.0L), third, third, third, 1, 0, 0},
                         1) == "");
}

TEST_CASE_TEMPLATE("argmax: the first of equals, NaN before all numbers", T, float, double) {
  const T nan = static_cast<T>(not_a_number);
  const T inf = static_cast<T>(infinity);
  const auto argmax = [](const std::vector<T>& row) {
    Tensor y = Tensor::full({1}, -7, DType::int64);
    ops::argmax(Tensor::from(row, {1, static_cast<std::int64_t>(row.size())}), y);
    return y.item();
  };
  CHECK(argmax({3}) == 0);
  CHECK(argmax({1, 3, 2}) == 1);
  CHECK(argmax({1, 3, 3}) == 1);
  CHECK(argmax({2, 2, 2}) == 0);
  CHECK(argmax({-inf, -inf}) == 0);
  CHECK(argmax({-5, -3, -4}) == 1);
  CHECK(argmax({0, inf, inf}) == 1);
  CHECK(argmax({T(-0.0), T(0.0)}) == 0);
  CHECK(argmax({1, nan, 5}) == 1);
  CHECK(argmax({nan, 5, 1}) == 0);
  CHECK(argmax({1, nan, inf, nan}) == 1);
  CHECK(argmax({1, 2, nan}) == 2);
  Tensor rows = Tensor::full({2, 2}, -7, DType::int64);
  ops::argmax(Tensor::from(std::vector<T>{1, 2, 4, 3, 9, 9, 0, 1}, {2, 2, 2}), rows);
  CHECK(rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 0, 1});
  Tensor none = Tensor::zeros({0}, DType::int64);
  ops::argmax(Tensor::zeros({0, 3}, dtype_of<T>), none);
}

TEST_CASE("argmax of 16-bit rows") {
  Tensor y = Tensor::zeros({1}, DType::int64);
  const std::vector<bfloat16> row{bfloat16(1.0f), bfloat16(3.0f), bfloat16(3.0f), bfloat16(-9.0f)};
  ops::argmax(Tensor::from(row, {1, 4}), y);
  CHECK(y.item() == 1);
}

}  // namespace
}  // namespace sinter
