// Matrix products and Linear's pass on the GPU. Factors are -1, 0 and 1: every order of addition
// gives the same whole number, which every type holds.

#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

std::vector<int> signs(std::int64_t n, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<int> values(static_cast<std::size_t>(n));
  for (int& value : values) {
    value = static_cast<int>(numbers.integer(-1, 1));
  }
  return values;
}

template <class T>
std::vector<T> as(const std::vector<int>& values) {
  std::vector<T> out;
  for (const int value : values) {
    out.push_back(T(static_cast<float>(value)));
  }
  return out;
}

// By value: -0 is 0 here, as the sum of no products or of one may be either.
template <class T>
bool same(const std::vector<T>& got, const std::vector<int>& wanted) {
  bool all = got.size() == wanted.size();
  for (std::size_t i = 0; all && i < got.size(); ++i) {
    all = value_of(got[i]) == Real(wanted[i]);
  }
  return all;
}

struct Sizes {
  std::int64_t m, n, k;
};
constexpr Sizes all_sizes[] = {{1, 1, 1},   {3, 5, 7},  {1, 10, 33},  {64, 10, 33},
                               {33, 1, 64}, {8, 8, 16}, {70, 67, 65}, {129, 257, 65},
                               {0, 3, 5},   {3, 0, 5},  {3, 5, 0}};

// a [m, k] times b [k, n] where both are stored as given.
std::vector<int> product(const Sizes& s, const std::vector<int>& a, bool transpose_a,
                         const std::vector<int>& b, bool transpose_b, int start) {
  std::vector<int> c(static_cast<std::size_t>(s.m * s.n), start);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      for (std::int64_t p = 0; p < s.k; ++p) {
        const auto at_a = static_cast<std::size_t>(transpose_a ? p * s.m + i : i * s.k + p);
        const auto at_b = static_cast<std::size_t>(transpose_b ? j * s.k + p : p * s.n + j);
        c[static_cast<std::size_t>(i * s.n + j)] += a[at_a] * b[at_b];
      }
    }
  }
  return c;
}

TEST_CASE_TEMPLATE("CUDA: matrix products, transposed and added up", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback silent(FallbackPolicy::silent);
  for (const Sizes& s : all_sizes) {
    const std::vector<int> a = signs(s.m * s.k, 1);
    const std::vector<int> b = signs(s.k * s.n, 2);
    for (int bits = 0; bits < 8; ++bits) {
      const ops::MatmulArgs args{
          .transpose_a = bits % 2 == 1, .transpose_b = bits / 2 % 2 == 1, .accumulate = bits >= 4};
      const Shape shape_a = args.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k};
      const Shape shape_b = args.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n};
      Placed<T> c({s.m, s.n});
      if (args.accumulate) {
        c.tensor.fill(5);
      }
      ops::matmul(upload(as<T>(a), shape_a), upload(as<T>(b), shape_b), c.tensor, args);
      const std::vector<int> wanted =
          product(s, a, args.transpose_a, b, args.transpose_b, args.accumulate ? 5 : 0);
      INFO(s.m, " x ", s.k, " x ", s.n, ", variant ", bits);
      CHECK(same(c.values(), wanted));
      CHECK(c.damage() == "");
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: linear, its bias, activation and dropout, with and without z", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback silent(FallbackPolicy::silent);
  for (const Sizes& s : all_sizes) {
    const std::vector<int> x = signs(s.m * s.k, 3);
    const std::vector<int> w = signs(s.n * s.k, 4);
    const std::vector<int> bias = signs(s.n, 5);
    for (int variant = 0; variant < 12; ++variant) {
      const bool with_bias = variant % 2 == 0;
      const bool with_z = variant / 2 % 2 == 0;
      constexpr double ps[] = {0, 0.5, 1};
      const double p = ps[variant / 4];
      INFO(s.m, " x ", s.k, " x ", s.n, ", bias ", with_bias, ", z ", with_z, ", p = ", p);
      std::vector<int> before = product(s, x, false, w, true, 0);
      for (std::size_t i = 0; with_bias && i < before.size(); ++i) {
        before[i] += bias[i % bias.size()];
      }
      const Tensor x_there = upload(as<T>(x), {s.m, s.k});
      const Tensor w_there = upload(as<T>(w), {s.n, s.k});
      const Tensor bias_there = with_bias ? upload(as<T>(bias)) : Tensor{};
      const math::DropoutMask mask = math::dropout_mask(p, 3, 2, 1);
      const auto run = [&](const ops::ActivationArgs& args) {
        Tensor z = with_z ? poisoned<T>({s.m, s.n}) : Tensor{};
        Placed<T> y({s.m, s.n}, 1);
        ops::linear_forward(x_there, w_there, bias_there, z, y.tensor, args);
        if (with_z) {
          CHECK(same(download<T>(z), before));
        }
        CHECK(y.damage() == "");
        return y.values();
      };
      std::vector<int> rectified, bare;
      for (std::size_t i = 0; i < before.size(); ++i) {
        const int scale = p == 1 ? 0 : p == 0.5 ? (mask.keep(9 + i) ? 2 : 0) : 1;
        bare.push_back(scale * before[i]);
        rectified.push_back(before[i] > 0 ? bare.back() : 0);
      }
      CHECK(same(run({.act = {}, .dropout = {mask, 9}, .stored = dtype_of<T>}), bare));
      CHECK(
          same(run({.act = math::ReLU{}, .dropout = {mask, 9}, .stored = dtype_of<T>}), rectified));
      const std::vector<T> soft =
          run({.act = math::Softplus{}, .dropout = {mask, 9}, .stored = dtype_of<T>});
      Worst worst;
      for (std::size_t i = 0; i < soft.size(); ++i) {
        const Real scale = p == 1 ? 0 : p == 0.5 ? (mask.keep(9 + i) ? 2 : 0) : 1;
        const Real want = math::reference(math::Softplus{}, Real(before[i])).y * scale;
        worst.see(error_in_units(soft[i], want), Real(before[i]));
      }
      CHECK(worst.size <= (std::is_same_v<T, float> ? 4 : 2));
    }
  }
}

}  // namespace
}  // namespace sinter::on_device
