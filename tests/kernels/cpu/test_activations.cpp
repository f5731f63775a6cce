// Activation with dropout, forward and backward, against textbook formulas in long double.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "activation_cases.h"

namespace sinter {
namespace {

constexpr math::MaskScheme schemes[] = {math::MaskScheme::lanes, math::MaskScheme::triton};

// How far a float64 result at x may be off: some roundings, more where the argument of an
// exponential is far from 0, whose rounding error is multiplied by the argument; and what the
// reference itself loses where x - tanh(x) cancels. float32 is held to the given units.
template <class T>
Real slack(Real x, Real wanted, double float32_ulps) {
  const Real ulps = std::is_same_v<T, float> ? Real(float32_ulps) : 6 + 2 * x * x;
  const Real reference = std::numeric_limits<Real>::epsilon() * std::abs(x);
  return ulps * ulp<T>(wanted) + (std::is_same_v<T, float> ? 0 : 8 * reference);
}

template <class T>
Tensor forward(const Tensor& x, const ops::ActivationArgs& args) {
  Tensor y = Tensor::full(x.shape(), -77, dtype_of<T>);
  ops::activation_forward(x, y, args);
  return y;
}

template <class T>
Tensor backward(const Tensor& kept, const Tensor& dy, const ops::ActivationArgs& args) {
  Tensor dx = Tensor::full(dy.shape(), -77, dtype_of<T>);
  ops::activation_backward(kept, dy, dx, args);
  return dx;
}

TEST_CASE_TEMPLATE("forward agrees with the formula, 2 ulp in float32", T, float, double) {
  for_each_activation_case([]<class A>(const A& a) {
    INFO(A::name);
    const std::vector<T> x = inputs_for<T>(a, 3000);
    std::vector<Real> wanted;
    for (const T value : x) {
      wanted.push_back(math::reference(computed_in<T>(a), value).y);
    }
    const Tensor y = forward<T>(Tensor::from(x, {3000}), {.act = a, .dropout = {}});
    CHECK(apart<T>(y, wanted, [&](std::size_t i) { return slack<T>(x[i], wanted[i], 2); }) == "");
  });
}

TEST_CASE_TEMPLATE("forward with dropout: scaled where kept, exactly 0 where not", T, float,
                   double) {
  for (const math::MaskScheme scheme : schemes) {
    for (const double p : {0.1, 0.5, 0.85}) {
      const ops::DropoutArgs dropout{math::dropout_mask(p, 42, 1, 2, scheme), 5};
      const Real scale = scale_of(dropout.mask);
      for_each_activation_case([&]<class A>(const A& a) {
        INFO(A::name, " p = ", p);
        const std::vector<T> x = inputs_for<T>(a, 3000);
        std::vector<Real> wanted;
        for (std::size_t i = 0; i < x.size(); ++i) {
          wanted.push_back(
              dropout.mask.keep(5 + i) ? math::reference(computed_in<T>(a), x[i]).y * scale : 0);
        }
        const Tensor y = forward<T>(Tensor::from(x, {3000}), {.act = a, .dropout = dropout});
        CHECK(apart<T>(y, wanted, [&](std::size_t i) {
                return wanted[i] == 0 ? 0 : slack<T>(x[i], wanted[i], 3);
              }) == "");
      });
    }
  }
}

// The slope that belongs to an element, times dy: through the stored output its error is a few
// epsilons absolute, from the input relative.
template <class T, class A>
Real backward_tolerance(Real x, Real wanted, Real factor) {
  const Real epsilon = std::numeric_limits<T>::epsilon();
  const Real stored = math::derives_from_output<A> ? 4 * epsilon * std::abs(factor) : 0;
  // Where x times a density and a probability nearly cancel, their errors stay.
  const Real cancelled = std::is_same_v<T, double> ? 4 * epsilon * std::abs(factor) : 0;
  // A slope below the smallest normal number is rounded to few digits before it is multiplied.
  const Real subnormal = ulp<T>(0) * std::abs(factor);
  return stored + cancelled + subnormal + slack<T>(x, wanted, 4);
}

TEST_CASE_TEMPLATE("backward agrees with the formula's slope, without and with dropout", T, float,
                   double) {
  for (const math::MaskScheme scheme : schemes) {
    for (const double p : {0.0, 0.1, 0.5, 0.85}) {
      const ops::DropoutArgs dropout{math::dropout_mask(p, 7, 0, 3, scheme), 1};
      const Real scale = scale_of(dropout.mask);
      for_each_activation_case([&]<class A>(const A& a) {
        INFO(A::name, " p = ", p);
        const std::vector<T> x = inputs_for<T>(a, 3000);
        Numbers numbers(3);
        const Tensor dy = random_tensor<T>({3000}, numbers, -2, 2);
        const std::vector<Real> incoming = reals(dy);
        std::vector<Real> wanted;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const Real slope = math::reference(computed_in<T>(a), x[i]).slope;
          wanted.push_back(dropout.mask.keep(1 + i) ? incoming[i] * scale * slope : 0);
        }
        const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype_of<T>};
        const Tensor in = Tensor::from(x, {3000});
        const Tensor out = forward<T>(in, args);
        const Tensor dx = backward<T>(kept_of<A>(in, out), dy, args);
        CHECK(apart<T>(dx, wanted, [&](std::size_t i) {
                return backward_tolerance<T, A>(x[i], wanted[i], incoming[i] * scale);
              }) == "");
      });
    }
  }
}

TEST_CASE_TEMPLATE("without an activation: the identity, forward and backward", T, float, double) {
  Numbers numbers(5);
  const Tensor x = random_tensor<T>({1500}, numbers, -3, 3);
  const ops::ActivationArgs args{.act = {}, .dropout = {math::dropout_mask(0.3, 1, 2, 3), 9}};
  std::vector<Real> wanted = reals(x);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] *= args.dropout.mask.keep(9 + i) ? scale_of(args.dropout.mask) : 0;
  }
  CHECK(apart_by_ulps<T>(forward<T>(x, args), wanted, 1.5) == "");
  CHECK(apart_by_ulps<T>(backward<T>(x, x, args), wanted, 1.5) == "");
  Tensor y = Tensor::zeros(x.shape(), dtype_of<T>);
  ops::dropout(x, y, args.dropout);
  CHECK(different(y, forward<T>(x, args)) == "");
  CHECK(different(forward<T>(x, {}), x) == "");
  CHECK(different(backward<T>(x, x, {}), x) == "");
}

TEST_CASE_TEMPLATE("an element's result does not depend on what stands beside it", T, float,
                   double) {
  // Vector loops have heads and tails: every length, and those around the blocks and the pieces
  // that work is cut into, give what single elements give.
  std::vector<std::int64_t> lengths{0,    1023,  1024,  1025,  2047,  2048, 2049,
                                    3000, 32767, 32768, 32769, 70001, 98305};
  for (std::int64_t n = 1; n <= 67; ++n) {
    lengths.push_back(n);
  }
  const auto check = [&]<class A>(const A& a, std::int64_t n, double p) {
    Numbers numbers(static_cast<std::uint64_t>(n));
    const Tensor x = random_tensor<T>({n}, numbers, -8, 8);
    const Tensor dy = random_tensor<T>({n}, numbers, -1, 1);
    ops::ActivationArgs args{.act = a, .dropout = {math::dropout_mask(p, 4, 4, 4), 3}};
    const Tensor y = forward<T>(x, args);
    const Tensor dx = backward<T>(kept_of<A>(x, y), dy, args);
    const std::int64_t step = n > 100 ? 37 : 1;
    for (std::int64_t i = 0; i < n; i += i + 70 < n ? step : 1) {
      const Tensor one = x.view_rows(i, i + 1);
      args.dropout.first = 3 + static_cast<std::uint64_t>(i);
      const Tensor alone = forward<T>(one, args);
      const Tensor slope = backward<T>(kept_of<A>(one, alone), dy.view_rows(i, i + 1), args);
      if (different(alone, y.view_rows(i, i + 1)) != "" ||
          different(slope, dx.view_rows(i, i + 1)) != "") {
        return text(A::name, ": element ", i, " of ", n);
      }
    }
    return std::string();
  };
  for (const std::int64_t n : lengths) {
    for (const double p : {0.0, 0.4}) {
      CHECK(check(math::ReLU{}, n, p) == "");
      CHECK(check(math::Tanh{}, n, p) == "");
      CHECK(check(math::Hardswish{}, n, p) == "");
    }
  }
}

TEST_CASE_TEMPLATE("the output may be the input", T, float, double) {
  Numbers numbers(8);
  const Tensor x = random_tensor<T>({40000}, numbers, -4, 4);
  const ops::ActivationArgs args{.act = math::GELU{},
                                 .dropout = {math::dropout_mask(0.25, 6, 0, 0), 0}};
  Tensor y = x.clone();
  ops::activation_forward(y, y, args);
  CHECK(different(y, forward<T>(x, args)) == "");
}

}  // namespace
}  // namespace sinter
