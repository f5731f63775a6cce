// Pools: means against their definition, and which element is the largest.

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

constexpr double inf = infinity;

Tensor image(const std::vector<double>& values, std::int64_t height) {
  return Tensor::from(values, {1, 1, height, static_cast<std::int64_t>(values.size()) / height});
}

std::vector<double> largest(const Tensor& x, const Shape& of_y, const ops::Pool2dArgs& args) {
  Tensor y = Tensor::full(of_y, -77, DType::float64);
  ops::max_pool2d_forward(x, y, args);
  return y.to_vector<double>();
}

// Where ones that come into the output go.
std::vector<double> places(const Tensor& x, const Shape& of_y, const ops::Pool2dArgs& args) {
  Tensor dx = Tensor::full(x.shape(), -77, DType::float64);
  ops::max_pool2d_backward(x, Tensor::full(of_y, 1, DType::float64), dx, args);
  return dx.to_vector<double>();
}

TEST_CASE("the largest element of a window is the first of equals, and NaN") {
  const ops::Pool2dArgs two{.kernel = 2, .stride = 2};
  const Tensor equals = image({1, 1, -2, -3, 1, 1, -1, -1}, 2);
  CHECK(largest(equals, {1, 1, 1, 2}, two) == std::vector<double>{1, -1});
  CHECK(places(equals, {1, 1, 1, 2}, two) == std::vector<double>{1, 0, 0, 0, 0, 0, 1, 0});
  const Tensor special = image({inf, not_a_number, -inf, -inf, 5, inf, -inf, -inf}, 2);
  const std::vector<double> out = largest(special, {1, 1, 1, 2}, two);
  CHECK(std::isnan(out[0]));
  CHECK(out[1] == -inf);
  CHECK(places(special, {1, 1, 1, 2}, two) == std::vector<double>{0, 1, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("padding is never the largest, and one element may be it for several windows") {
  const ops::Pool2dArgs args{.kernel = {1, 3}, .stride = 1, .padding = {0, 1}};
  const Tensor negative = image({-5, -3, -7, -9}, 1);
  CHECK(largest(negative, {1, 1, 1, 4}, args) == std::vector<double>{-3, -3, -3, -7});
  CHECK(places(negative, {1, 1, 1, 4}, args) == std::vector<double>{0, 3, 1, 0});
  // The two elements of the only window lie on either side of the image.
  const ops::Pool2dArgs around{
      .kernel = {1, 2}, .stride = 1, .padding = {0, 1}, .dilation = {1, 5}};
  CHECK(largest(negative, {1, 1, 1, 1}, around) == std::vector<double>{-inf});
  CHECK(places(negative, {1, 1, 1, 1}, around) == std::vector<double>(4, 0.0));
}

TEST_CASE("dilation, stride and a last window that reaches beyond the image") {
  const Tensor x = image({8, 1, 2, 3, 4, 5, 6}, 1);
  CHECK(largest(x, {1, 1, 1, 3}, {.kernel = {1, 2}, .stride = {1, 2}, .dilation = {1, 2}}) ==
        std::vector<double>{8, 4, 6});
  CHECK(ops::window_count(7, 2, 2, 0, 1, false) == 3);
  CHECK(ops::window_count(7, 2, 2, 0, 1, true) == 4);
  CHECK(largest(x, {1, 1, 1, 4}, {.kernel = {1, 2}, .stride = {1, 2}}) ==
        std::vector<double>{8, 3, 5, 6});
  // PyTorch drops a last window that would begin behind the image.
  CHECK(ops::window_count(2, 1, 3, 0, 1, true) == 1);
  CHECK(ops::window_count(6, 2, 3, 1, 1, true) == 3);
  CHECK(ops::window_count(5, 2, 3, 1, 1, true) == 2);
}

std::vector<double> means(const Tensor& x, const Shape& of_y, const ops::Pool2dArgs& args) {
  Tensor y = Tensor::full(of_y, -77, DType::float64);
  ops::avg_pool2d_forward(x, y, args);
  return y.to_vector<double>();
}

TEST_CASE("a mean divides by what PyTorch divides by") {
  const Tensor x = image({6, 12, 18, 24, 30}, 1);
  ops::Pool2dArgs args{.kernel = {1, 3}, .stride = {1, 2}, .padding = {0, 1}};
  CHECK(means(x, {1, 1, 1, 3}, args) == std::vector<double>{6, 18, 18});
  args.count_include_pad = false;
  CHECK(means(x, {1, 1, 1, 3}, args) == std::vector<double>{9, 18, 27});
  // The part of a last window that lies beyond the padding counts in neither way.
  args = {.kernel = {1, 4}, .stride = {1, 4}, .padding = {0, 1}};
  CHECK(ops::window_count(5, 4, 4, 1, 1, true) == 2);
  CHECK(means(x, {1, 1, 1, 2}, args) == std::vector<double>{9, 18});
  args.count_include_pad = false;
  CHECK(means(x, {1, 1, 1, 2}, args) == std::vector<double>{12, 27});
}

TEST_CASE("adaptive windows cover the image, and may overlap") {
  const Tensor x = image({1, 2, 3, 4, 5, 6, 7}, 1);
  const ops::Pool2dArgs adaptive{.adaptive = true};
  CHECK(means(x, {1, 1, 1, 1}, adaptive) == std::vector<double>{4});
  CHECK(means(x, {1, 1, 1, 3}, adaptive) == std::vector<double>{2, 4, 6});
  CHECK(means(x, {1, 1, 1, 2}, adaptive) == std::vector<double>{2.5, 5.5});
  CHECK(means(image({1, 2}, 1), {1, 1, 1, 5}, adaptive) == std::vector<double>{1, 1, 1.5, 2, 2});
}

TEST_CASE("a float32 mean of many is rounded once") {
  Numbers numbers(3);
  const Tensor x = random_tensor<float>({2, 3, 501, 499}, numbers, 1000, 1001);
  Tensor y = Tensor::zeros({2, 3, 1, 1});
  ops::avg_pool2d_forward(x, y, {.adaptive = true});
  const std::vector<Real> xs = reals(x);
  std::vector<Real> wanted(6);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    wanted[i / (501 * 499)] += xs[i] / (501 * 499);
  }
  CHECK(apart_by_ulps<float>(y, wanted, 0.51) == "");
}

}  // namespace
}  // namespace sinter
