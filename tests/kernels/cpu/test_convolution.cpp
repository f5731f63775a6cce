// Convolutions against the sums that define them, in long double.

#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

struct Setting {
  const char* name;
  Shape x, weight;
  ops::Conv2dArgs args;
};

const Setting settings[] = {
    {"one image", {1, 1, 5, 5}, {1, 1, 3, 3}, {}},
    {"odd sizes", {3, 5, 7, 11}, {7, 5, 3, 2}, {}},
    {"stride, padding, dilation, groups", {3, 6, 13, 9}, {9, 2, 2, 3}, {{3, 2}, {1, 4}, {2, 3}, 3}},
    {"one element under the kernel", {4, 9, 5, 7}, {11, 9, 1, 1}, {}},
    {"one element, padded", {2, 3, 5, 7}, {4, 3, 1, 1}, {1, 2, 1, 1}},
    {"one element, with stride", {2, 3, 5, 7}, {4, 3, 1, 1}, {2, 0, 1, 1}},
    {"a kernel for each channel", {2, 8, 9, 9}, {16, 1, 3, 3}, {1, 1, 1, 8}},
    {"the whole image under the kernel", {2, 3, 6, 5}, {4, 3, 6, 5}, {}},
    {"padding alone under some windows", {2, 2, 3, 4}, {3, 2, 2, 2}, {{1, 2}, {5, 4}, {1, 3}, 1}},
    {"several blocks of windows", {2, 40, 24, 23}, {5, 40, 3, 3}, {1, 1, 1, 1}},
    {"several blocks of channels and sums of images", {19, 33, 6, 5}, {17, 33, 3, 3}, {1, 1, 1, 1}},
    {"no image", {0, 2, 5, 5}, {3, 2, 3, 3}, {}},
};

Shape shape_of_y(const Setting& s) {
  const auto count = [](std::int64_t size, std::int64_t kernel, std::int64_t stride,
                        std::int64_t padding, std::int64_t dilation) {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  };
  const auto& [stride, padding, dilation, groups] = s.args;
  return {s.x[0], s.weight[0], count(s.x[2], s.weight[2], stride.h, padding.h, dilation.h),
          count(s.x[3], s.weight[3], stride.w, padding.w, dilation.w)};
}

// Calls use(y, x, w) with the places of the elements that meet in each product.
template <class Use>
void for_each_product(const Setting& s, Use use) {
  const Shape y = shape_of_y(s);
  const auto& [stride, padding, dilation, groups] = s.args;
  const std::int64_t in = s.weight[1], out = s.weight[0] / groups;
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t r = 0; r < y[2]; ++r) {
        for (std::int64_t q = 0; q < y[3]; ++q, ++at) {
          for (std::int64_t c = 0; c < in; ++c) {
            for (std::int64_t i = 0; i < s.weight[2]; ++i) {
              for (std::int64_t j = 0; j < s.weight[3]; ++j) {
                const std::int64_t h = r * stride.h - padding.h + i * dilation.h;
                const std::int64_t w = q * stride.w - padding.w + j * dilation.w;
                if (h >= 0 && h < s.x[2] && w >= 0 && w < s.x[3]) {
                  use(at, ((n * s.x[1] + o / out * in + c) * s.x[2] + h) * s.x[3] + w,
                      ((o * in + c) * s.weight[2] + i) * s.weight[3] + j);
                }
              }
            }
          }
        }
      }
    }
  }
}

// Sums, and the sums of the magnitudes of their terms, which bound the rounding errors.
struct Sums {
  std::vector<Real> value, size;
  explicit Sums(std::int64_t n)
      : value(static_cast<std::size_t>(n)), size(static_cast<std::size_t>(n)) {}
  void add(std::int64_t at, Real term) {
    value[static_cast<std::size_t>(at)] += term;
    size[static_cast<std::size_t>(at)] += std::abs(term);
  }
};

template <class T>
std::string compare(const Tensor& got, const Sums& wanted) {
  return apart<T>(got, wanted.value, [&](std::size_t i) {
    return 16 * std::numeric_limits<T>::epsilon() * static_cast<double>(wanted.size[i]);
  });
}

TEST_CASE_TEMPLATE("convolutions and their gradients are the sums that define them", T, float,
                   double) {
  Numbers numbers(11);
  for (const Setting& s : settings) {
    CAPTURE(s.name);
    const Shape of_y = shape_of_y(s);
    const Tensor x = random_tensor<T>(s.x, numbers, -1, 1);
    const Tensor weight = random_tensor<T>(s.weight, numbers, -1, 1);
    const Tensor bias = random_tensor<T>({of_y[1]}, numbers, -1, 1);
    const Tensor dy = random_tensor<T>(of_y, numbers, -1, 1);
    const std::vector<Real> xs = reals(x), ws = reals(weight), bs = reals(bias), dys = reals(dy);
    const auto value = [](const std::vector<Real>& of, std::int64_t i) {
      return of[static_cast<std::size_t>(i)];
    };
    Sums y(of_y.numel()), shifted(of_y.numel()), dx(s.x.numel()), dw(s.weight.numel()),
        more(s.weight.numel());
    for (std::int64_t i = 0; i < of_y.numel(); ++i) {
      shifted.add(i, value(bs, i / (of_y[2] * of_y[3]) % of_y[1]));
    }
    for (std::int64_t i = 0; i < s.weight.numel(); ++i) {
      more.add(i, 3);
    }
    for_each_product(s, [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_w) {
      y.add(at_y, value(xs, at_x) * value(ws, at_w));
      shifted.add(at_y, value(xs, at_x) * value(ws, at_w));
      dx.add(at_x, value(dys, at_y) * value(ws, at_w));
      dw.add(at_w, value(dys, at_y) * value(xs, at_x));
      more.add(at_w, value(dys, at_y) * value(xs, at_x));
    });
    const auto full = [](const Shape& shape, double of) {
      return Tensor::full(shape, of, dtype_of<T>);
    };
    Tensor out = full(of_y, -77), none;
    ops::conv2d_forward(x, weight, none, out, s.args);
    CHECK(compare<T>(out, y) == "");
    ops::conv2d_forward(x, weight, bias, out, s.args);
    CHECK(compare<T>(out, shifted) == "");
    Tensor of_input = full(s.x, -77);
    ops::conv2d_backward_input(dy, weight, of_input, s.args);
    CHECK(compare<T>(of_input, dx) == "");
    Tensor of_weight = full(s.weight, 3);
    ops::conv2d_backward_weight(x, dy, of_weight, s.args, true);
    CHECK(compare<T>(of_weight, more) == "");
    ops::conv2d_backward_weight(x, dy, of_weight, s.args, false);
    CHECK(compare<T>(of_weight, dw) == "");
  }
}

}  // namespace
}  // namespace sinter
