// Sums, softmax and argmax on the GPU against the CPU's in float64.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

constexpr std::int64_t lengths[] = {0, 1, 2, 31, 33, 255, 257, 2047, 2049, 5000, 70001};

template <class T>
std::string wrong_sum(const Shape& from, const Shape& to, bool accumulate, std::int64_t shift) {
  const std::vector<T> x = random_values<T>(from.numel(), 1, 0.5, 1);
  const std::vector<T> y = random_values<T>(to.numel(), 2, -1, 1);
  Tensor wanted = in_float64(y, to);
  ops::sum_to(in_float64(x, from), wanted, accumulate);
  const Placed<T> x_there(Tensor::from(x, from), shift);
  Placed<T> got(Tensor::from(y, to), 2 * shift);
  Placed<T> again(Tensor::from(y, to), 2 * shift);
  ops::sum_to(x_there.tensor, got.tensor, accumulate);
  ops::sum_to(x_there.tensor, again.tensor, accumulate);
  // Sums over rows are made of groups of 128.
  return off(got.values(), wanted.template to_vector<double>(), 30, 1) +
         unlike(again.values(), got.values()) + got.damage();
}

TEST_CASE_TEMPLATE("CUDA: sums to a scalar, to trailing dimensions and to any broadcast shape", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  struct Case {
    Shape from, to;
  };
  std::vector<Case> cases{{{}, {}},
                          {{0}, {}},
                          {{1}, {}},
                          {{1}, {1}},
                          {{5000}, {}},
                          {{70001}, {1}},
                          {{3, 5, 7}, {}},
                          {{3, 5, 7}, {1, 1, 1}},
                          {{5, 7}, {7}},
                          {{129, 67}, {67}},
                          {{3, 5, 7}, {5, 7}},
                          {{0, 7}, {7}},
                          {{7, 0}, {0}},
                          {{7, 0}, {7, 1}},
                          {{5, 7}, {5, 7}},
                          {{5, 7}, {1, 7}},
                          {{5, 7}, {5, 1}},
                          {{3, 5, 7}, {1, 5, 1}},
                          {{3, 5, 7}, {3, 1, 7}},
                          {{3, 5, 7}, {5, 1}},
                          {{3, 5, 7}, {3, 5, 1}},
                          {{2, 3, 4, 5, 2, 3}, {2, 1, 4, 1, 2, 1}},
                          {{2, 1, 3}, {2, 1, 1}},
                          {{300, 33}, {300, 1}},
                          {{3, 1025, 2}, {3, 1, 2}},
                          {{2, 3000}, {2, 1}}};
  for (std::int64_t columns = 1; columns <= 70; ++columns) {
    cases.push_back({{5, columns}, {columns}});
    cases.push_back({{3, columns}, {3, 1}});
  }
  for (const Case& c : cases) {
    for (const bool accumulate : {false, true}) {
      for (const std::int64_t shift : {0, 1}) {
        INFO(c.from, " to ", c.to, accumulate ? ", added" : "", ", shift ", shift);
        CHECK(wrong_sum<T>(c.from, c.to, accumulate, shift) == "");
      }
    }
  }
}

template <class T>
std::string wrong_softmax(const std::vector<T>& x, std::int64_t columns, std::int64_t shift = 0) {
  const auto rows = columns == 0 ? 0 : static_cast<std::int64_t>(x.size()) / columns;
  const Shape shape{rows, columns};
  Tensor wanted = Tensor::zeros(shape, DType::float64);
  ops::softmax(in_float64(x, shape), wanted, {});
  const Placed<T> there(Tensor::from(x, shape), shift);
  Placed<T> y(shape, 2 * shift);
  ops::softmax(there.tensor, y.tensor, {});
  return off(y.values(), wanted.to_vector<double>(), 10 + static_cast<double>(columns) / 1000) +
         y.damage();
}

template <class T>
std::string wrong_argmax(const std::vector<T>& x, std::int64_t columns, std::int64_t shift = 0) {
  const auto rows = columns == 0 ? 0 : static_cast<std::int64_t>(x.size()) / columns;
  Tensor wanted = Tensor::zeros({rows}, DType::int64);
  ops::argmax(in_float64(x, {rows, columns}), wanted);
  const Placed<T> there(Tensor::from(x, {rows, columns}), shift);
  Tensor y = Tensor::full({rows}, -1, DType::int64, Device::cuda());
  ops::argmax(there.tensor, y);
  return y.to_vector<std::int64_t>() == wanted.to_vector<std::int64_t>() ? "" : "another place";
}

TEST_CASE_TEMPLATE("CUDA: softmax and argmax", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes{
      {0, 5}, {5, 0}, {257, 10}, {3, 1000}, {2, 1025}, {2, 20000}, {1, 1}};
  for (std::int64_t columns = 1; columns <= 70; ++columns) {
    shapes.emplace_back(1 + columns % 7, columns);
  }
  for (const auto& [rows, columns] : shapes) {
    INFO(rows, " x ", columns);
    const std::vector<T> x = random_values<T>(rows * columns, 5, -9, 9);
    for (const std::int64_t shift : {0, 1}) {
      CHECK(wrong_softmax(x, columns, shift) == "");
      CHECK(wrong_argmax(x, columns, shift) == "");
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: argmax takes the first of equals and the first NaN", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const float nan = std::nanf(""), inf = INFINITY;
  const std::vector<float> rows[] = {
      {1, 3, 3, 2},       {nan, 5, nan, 1},         {1, 5, nan, nan},
      {inf, nan, inf, 0}, {-inf, -inf, -inf, -inf}, {0, -0.0f, 0, -1},
      {-0.0f, 0, 0, 0}};
  for (const auto& row : rows) {
    for (const std::int64_t apart : {1, 33, 400}) {  // in one warp, in several
      std::vector<T> x(static_cast<std::size_t>(4 * apart), T(-INFINITY));
      for (std::size_t i = 0; i < 4; ++i) {
        x[i * static_cast<std::size_t>(apart)] = T(row[i]);
      }
      CAPTURE(row[0]);
      CAPTURE(apart);
      CHECK(wrong_argmax(x, 4 * apart) == "");
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: softmax of extreme rows, and NaN stays NaN", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const float big = std::is_same_v<T, float16> ? 60000.0f : 3e38f;
  for (const auto& row : {std::vector<float>{big, -big, 0}, std::vector<float>{big, big, big},
                          std::vector<float>{-INFINITY, 0, 1}, std::vector<float>{-big, -big, 1}}) {
    std::vector<T> x;
    for (const float value : row) {
      x.push_back(T(value));
    }
    CHECK(wrong_softmax(x, 3) == "");
  }
  Tensor y = filled<T>({1, 3}, 0);
  ops::softmax(upload(std::vector<T>{T(1.0f), T(std::nanf("")), T(2.0f)}, {1, 3}), y, {});
  for (const T& value : download<T>(y)) {
    CHECK(std::isnan(value_of(value)));
  }
}

}  // namespace
}  // namespace sinter::on_device
