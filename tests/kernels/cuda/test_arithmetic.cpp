// add, subtract, multiply, divide, affine and accumulate on the GPU: for one rounding in float32,
// and one more into a 16-bit type, the right answer is that of the plain C++ operator.

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

// The index in a tensor of `shape` of the element that stands at `place` of the shape `wide`.
std::size_t index_of(const Shape& shape, const Shape& wide, std::int64_t place) {
  std::int64_t offset = 0;
  std::int64_t stride = 1;
  for (int i = 1; i <= wide.rank(); ++i) {
    const std::int64_t coordinate = place % wide[-i];
    place /= wide[-i];
    if (i <= shape.rank()) {
      offset += shape[-i] == 1 ? 0 : coordinate * stride;
      stride *= shape[-i];
    }
  }
  return static_cast<std::size_t>(offset);
}

template <class T>
float as_float(T x) {
  return static_cast<float>(value_of(x));
}

// Calls use(op, f) for the four, f being the operator on floats.
template <class Use>
void for_each_operator(Use use) {
  use(ops::add, [](float p, float q) { return p + q; });
  use(ops::subtract, [](float p, float q) { return p - q; });
  use(ops::multiply, [](float p, float q) { return p * q; });
  use(ops::divide, [](float p, float q) { return p / q; });
}

template <class T>
std::string wrong_broadcast(const Shape& a_shape, const Shape& b_shape) {
  const std::vector<T> a = random_values<T>(a_shape.numel(), 1, -3, 3);
  const std::vector<T> b = random_values<T>(b_shape.numel(), 2, 0.5, 3);
  const Tensor a_there = upload(a, a_shape);
  const Tensor b_there = upload(b, b_shape);
  const Shape wide = broadcast("test", a_shape, b_shape);
  std::string wrong;
  for_each_operator([&](const auto& op, auto f) {
    Tensor y = poisoned<T>(wide);
    op(a_there, b_there, y);
    std::vector<T> wanted(static_cast<std::size_t>(wide.numel()));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      wanted[i] = T(f(as_float(a[index_of(a_shape, wide, place)]),
                      as_float(b[index_of(b_shape, wide, place)])));
    }
    const std::string difference = unlike(download<T>(y), wanted);
    wrong += difference.empty() ? "" : text(op.name, " ", a_shape, " ", b_shape, ": ", difference);
  });
  return wrong;
}

TEST_CASE_TEMPLATE("CUDA: arithmetic, with the broadcasts that bias and scale are made of", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback silent(FallbackPolicy::silent);
  const std::pair<Shape, Shape> pairs[] = {{{3}, {2, 3}},
                                           {{1, 3}, {2, 1}},
                                           {{}, {2, 3}},
                                           {{}, {}},
                                           {{1}, {4}},
                                           {{2, 3}, {2, 3}},
                                           {{2, 3}, {2, 1}},
                                           {{5, 1, 7}, {6, 1}},
                                           {{2, 1, 3, 1}, {4, 1, 5}},
                                           {{1, 1, 1, 1, 1, 2}, {3, 1, 1}},
                                           {{257}, {33, 257}},
                                           {{33, 1}, {33, 257}},
                                           {{256}, {64, 256}},
                                           {{0}, {1}},
                                           {{0, 3}, {3}},
                                           {{2, 1}, {0}},
                                           {{70000}, {1}},
                                           {{3, 4000}, {4000}},
                                           {{5000, 1}, {1, 2}}};
  for (const auto& [a, b] : pairs) {
    CHECK(wrong_broadcast<T>(a, b) == "");
    CHECK(wrong_broadcast<T>(b, a) == "");
  }
}

TEST_CASE_TEMPLATE("CUDA: arithmetic at any length and alignment, and in place", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  std::string wrong;
  for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 31, 64, 67, 1023, 1024, 1031, 2049, 70001}) {
    const std::vector<T> a = random_values<T>(n, 3, -3, 3);
    const std::vector<T> b = random_values<T>(n, 4, 0.5, 3);
    for (const auto& [shift_a, shift_b, shift_y] :
         {std::array{0, 0, 0}, std::array{1, 0, 0}, std::array{0, 3, 0}, std::array{0, 0, 5},
          std::array{2, 1, 3}, std::array{4, 4, 4}}) {
      const Placed<T> p(upload(a), shift_a);
      const Placed<T> q(upload(b), shift_b);
      for_each_operator([&](const auto& op, auto f) {
        std::vector<T> wanted(a.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          wanted[i] = T(f(as_float(a[i]), as_float(b[i])));
        }
        Placed<T> y({n}, shift_y);
        op(p.tensor, q.tensor, y.tensor);
        wrong += unlike(y.values(), wanted) + y.damage();
        Placed<T> over(p.tensor, shift_a);
        op(over.tensor, q.tensor, over.tensor);
        wrong += unlike(over.values(), wanted) + over.damage();
      });
      Placed<T> total(p.tensor, shift_a);
      ops::accumulate(q.tensor, total.tensor);
      std::vector<T> wanted(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        wanted[i] = T(as_float(a[i]) + as_float(b[i]));
      }
      wrong += unlike(total.values(), wanted) + total.damage();
    }
  }
  CHECK(wrong == "");
  Tensor twice = filled<T>({5}, 1.5);
  ops::accumulate(twice, twice);
  CHECK(unlike(download<T>(twice), std::vector<T>(5, T(3.0f))) == "");
}

TEST_CASE_TEMPLATE("CUDA: arithmetic on zeros, infinities, NaN and subnormals follows IEEE 754", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::vector<double> kinds{0,     -0.0,    1,        -1,   infinity, -infinity, not_a_number,
                                  60000, 0x1p-24, 0x1p-130, 3e38, 1e-38};
  std::vector<T> a;
  std::vector<T> b;
  for (const double p : kinds) {
    for (const double q : kinds) {
      a.push_back(rounded<T>(p));
      b.push_back(rounded<T>(q));
    }
  }
  const Tensor p = upload(a);
  const Tensor q = upload(b);
  for_each_operator([&](const auto& op, auto f) {
    std::vector<T> wanted(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      wanted[i] = T(f(as_float(a[i]), as_float(b[i])));
    }
    Tensor y = poisoned<T>(p.shape());
    op(p, q, y);
    CHECK_MESSAGE(unlike(download<T>(y), wanted) == "", op.name);
  });
}

TEST_CASE_TEMPLATE("CUDA: affine, scale, then shift", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const auto scale = Real{0.3f};
  const auto shift = Real{-1.7f};
  std::string wrong;
  for (const std::int64_t n : {0, 1, 7, 8, 33, 1000, 1031, 70001}) {
    const std::vector<T> xs = random_values<T>(n, 5, -10, 10);
    for (const std::int64_t misplaced : {0, 1, 3}) {
      const Placed<T> x(upload(xs), misplaced);
      Placed<T> y({n}, 2 * misplaced);
      ops::affine(x.tensor, y.tensor, 0.3, -1.7);
      const std::vector<T> got = y.values();
      for (std::size_t i = 0; i < got.size(); ++i) {
        // One rounding of a product of at most 3 and one of a sum in float32, then storage.
        const Real want = value_of(xs[i]) * scale + shift;
        const Real allowed = spacing<float>(2.9L) + spacing<float>(want) + spacing<T>(want) / 2;
        if (!(std::abs(value_of(got[i]) - want) <= allowed)) {
          wrong = text("element ", i, " of ", n, " is ", value_of(got[i]), ", not ", want);
        }
      }
      wrong += y.damage();
      Placed<T> over(x.tensor, misplaced);
      ops::affine(over.tensor, over.tensor, 0.3, -1.7);
      wrong += unlike(over.values(), got);
    }
  }
  CHECK(wrong == "");
  Tensor y = filled<T>({3}, 2);
  ops::affine(y, y, 1, 0);
  CHECK(unlike(download<T>(y), std::vector<T>(3, T(2.0f))) == "");
  Tensor nan = filled<T>({3}, not_a_number);
  ops::affine(nan, nan, 0, 1);
  CHECK(std::isnan(value_of(download<T>(nan)[0])));
}

}  // namespace
}  // namespace sinter::on_device
