#pragma once

// What the tests of the tile kernels share: sizes, operands anywhere in memory, and products in
// float64 of what the tensor cores see of these.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "on_device.h"
#include <sinter/kernels/cuda/tile/tile.h>

namespace sinter::on_device {

/// As the tensor cores take it: rounded to 11 significant bits, halves away from zero.
inline double in_tf32(float x) {
  if (!std::isfinite(x)) {
    return x;
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x1000u) & 0xffffe000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

struct Product {
  std::vector<double> value;
  std::vector<double> size;  ///< the same with all terms positive, by which errors are measured
};

/// c[i, j] = sum over p of a(i, p) b(p, j).
template <class A, class B>
Product product_of(std::int64_t m, std::int64_t n, std::int64_t k, A a, B b) {
  Product c{std::vector<double>(static_cast<std::size_t>(m * n)),
            std::vector<double>(static_cast<std::size_t>(m * n))};
  parallel_ranges(m, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t p = 0; p < k; ++p) {
        const double left = in_tf32(a(i, p));
        for (std::int64_t j = 0; j < n; ++j) {
          const double term = left * in_tf32(b(p, j));
          c.value[static_cast<std::size_t>(i * n + j)] += term;
          c.size[static_cast<std::size_t>(i * n + j)] += std::abs(term);
        }
      }
    }
  });
  return c;
}

/// The largest error, in the rounding errors that `terms` additions of such size may make.
inline double worst_error(const std::vector<float>& got, const Product& want, std::int64_t terms) {
  double worst = got.size() == want.value.size() ? 0 : infinity;
  for (std::size_t i = 0; i < got.size() && i < want.value.size(); ++i) {
    const double unit = want.size[i] * 0x1p-23 * static_cast<double>(terms + 8) + 1e-37;
    const double error = std::abs(static_cast<double>(got[i]) - want.value[i]) / unit;
    const bool both_nan = std::isnan(got[i]) && std::isnan(want.value[i]);
    const bool same = both_nan || static_cast<double>(got[i]) == want.value[i];
    worst = same ? worst : std::isnan(error) ? infinity : std::max(worst, error);
  }
  return worst;
}

inline std::vector<math::AnyActivation> all_settings() {
  std::vector<math::AnyActivation> all;
  for_each_setting([&](const auto& act) { all.push_back(act); });
  return all;
}

// Element (i, j) of a matrix of `columns`.
inline auto at(const std::vector<float>& values, std::int64_t columns) {
  return [&values, columns](std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * columns + j)];
  };
}
inline auto transposed(const std::vector<float>& values, std::int64_t columns) {
  return [&values, columns](std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(j * columns + i)];
  };
}

struct LinearSizes {
  std::int64_t rows, in, out;
};

inline std::vector<LinearSizes> linear_sizes(std::uint64_t seed, int count) {
  std::vector<LinearSizes> all{{1, 1, 1},     {16, 16, 16},    {1, 64, 32},
                               {33, 4, 8},    {128, 784, 256}, {100, 250, 130},
                               {70, 520, 36}, {300, 128, 10},  {7, 1030, 3}};
  Numbers numbers(seed);
  for (int i = 0; i < count; ++i) {
    // Whole vectors more often than chance would have them.
    const auto side = [&] {
      const std::int64_t n = numbers.integer(1, 70);
      return numbers.integer(0, 1) == 0 ? n : (n + 3) / 4 * 4;
    };
    const std::int64_t rows = side(), in = side();
    all.push_back({rows, in, side()});
  }
  return all;
}

/// Random numbers, `shift` elements behind an aligned address.
struct Operand {
  std::vector<float> value;
  Placed<float> placed;

  Operand(const Shape& shape, std::uint64_t seed, std::int64_t shift = 0)
      : Operand(random_values<float>(shape.numel(), seed, -1, 1), shape, shift) {}
  Operand(std::vector<float> values, const Shape& shape, std::int64_t shift)
      : value(std::move(values)), placed(upload(value, shape), shift) {}
  const Tensor& tensor() const { return placed.tensor; }
};

/// The masks that the tests go through.
inline ops::DropoutArgs dropout_case(int which) {
  const auto mask = [](double p, math::MaskScheme scheme) {
    return math::dropout_mask(p, 0x123456789abcdefu, 3, 5, scheme);
  };
  switch (which % 6) {
    case 0:
      return {};
    case 1:
      return {mask(0.1, math::MaskScheme::lanes), 0};
    case 2:
      return {mask(0.5, math::MaskScheme::lanes), 13};
    case 3:
      return {mask(0.3, math::MaskScheme::lanes), (std::uint64_t{1} << 35) - 21};
    case 4:
      return {mask(0.4, math::MaskScheme::triton), 6};
    default:
      return {mask(1, math::MaskScheme::lanes), 0};
  }
}

}  // namespace sinter::on_device
