// Activation with dropout where it is easily wrong: what is dropped, p of 0 and 1, flat parts,
// bounds that went through 16-bit storage.

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

Tensor forward(const Tensor& x, const ops::ActivationArgs& args) {
  Tensor y = Tensor::full(x.shape(), -77, x.dtype());
  ops::activation_forward(x, y, args);
  return y;
}

Tensor backward(const Tensor& kept, const Tensor& dy, const ops::ActivationArgs& args) {
  Tensor dx = Tensor::full(dy.shape(), -77, dy.dtype());
  ops::activation_backward(kept, dy, dx, args);
  return dx;
}

// 0 as bytes: neither -0 nor a NaN.
bool is_zero(double value) { return value == 0 && !std::signbit(value); }

TEST_CASE_TEMPLATE("a dropped element is exactly 0 whatever it was; a kept NaN stays one", T, float,
                   double) {
  std::vector<T> rubbish;
  for (int i = 0; i < 600; ++i) {
    const double kinds[] = {not_a_number, infinity, -infinity, -1, 1e30, -1e30};
    rubbish.push_back(static_cast<T>(kinds[i % 6]));
  }
  const Tensor x = Tensor::from(rubbish, {600});
  for (const math::MaskScheme scheme : schemes) {
    const ops::DropoutArgs dropout{math::dropout_mask(0.5, 3, 1, 4, scheme), 2};
    for_each_activation_case([&]<class A>(const A& a) {
      INFO(A::name);
      const ops::ActivationArgs args{.act = a, .dropout = dropout};
      const Tensor out = forward(x, args);
      const std::vector<Real> y = reals(out);
      const std::vector<Real> dx = reals(backward(kept_of<A>(x, out), x, args));
      int wrong = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (!dropout.mask.keep(2 + i)) {
          wrong += !is_zero(static_cast<double>(y[i])) || !is_zero(static_cast<double>(dx[i]));
        } else if (i % 6 == 0) {
          wrong += !std::isnan(y[i]) || !std::isnan(dx[i]);
        }
      }
      CHECK(wrong == 0);
    });
    // And after a matrix product, of which a NaN in x reaches every column.
    const Tensor weight = Tensor::full({41, 6}, 0.5, dtype_of<T>);
    Tensor out = Tensor::zeros({100, 41}, dtype_of<T>);
    Tensor none;
    ops::linear_forward(x.reshape({100, 6}), weight, none, none, out,
                        {.act = math::Tanh{}, .dropout = dropout});
    const std::vector<Real> y = reals(out);
    int wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      wrong += dropout.mask.keep(2 + i) ? !std::isnan(y[i]) : !is_zero(static_cast<double>(y[i]));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE_TEMPLATE("p = 0, or one that rounds to it, is no dropout", T, float, double) {
  Numbers numbers(2);
  const Tensor x = random_tensor<T>({1111}, numbers, -5, 5);
  const Tensor dy = random_tensor<T>({1111}, numbers, -1, 1);
  for_each_activation_case([&]<class A>(const A& a) {
    INFO(A::name);
    const Tensor plain = forward(x, {.act = a, .dropout = {}});
    const Tensor slope = backward(kept_of<A>(x, plain), dy, {.act = a, .dropout = {}});
    for (const ops::DropoutArgs& dropout :
         {ops::DropoutArgs{math::dropout_mask(0, 9, 8, 7), 6},
          ops::DropoutArgs{math::dropout_mask(0.49 / 65536, 9, 8, 7), 6},
          ops::DropoutArgs{math::dropout_mask(0, 9, 8, 7, math::MaskScheme::triton), 6},
          ops::DropoutArgs{math::dropout_mask(1e-60, 9, 8, 7, math::MaskScheme::triton), 6}}) {
      const ops::ActivationArgs args{.act = a, .dropout = dropout};
      CHECK(different(forward(x, args), plain) == "");
      CHECK(different(backward(kept_of<A>(x, plain), dy, args), slope) == "");
    }
  });
}

TEST_CASE_TEMPLATE("p = 1, or one that rounds to it, gives zeros and no gradient", T, float,
                   double) {
  const std::vector<T> kinds{T(1), T(-1),   T(infinity), T(-infinity), T(not_a_number), T(6),
                             T(0), T(-300), T(300),      T(0.25),      T(not_a_number)};
  const Tensor x = Tensor::from(kinds, {11});
  for_each_activation_case([&]<class A>(const A& a) {
    INFO(A::name);
    for (const math::DropoutMask& mask :
         {math::dropout_mask(1, 1, 2, 3), math::dropout_mask(1 - 0.49 / 65536, 1, 2, 3),
          math::dropout_mask(1, 1, 2, 3, math::MaskScheme::triton),
          math::dropout_mask(1 - 1e-9, 1, 2, 3, math::MaskScheme::triton)}) {
      const ops::ActivationArgs args{.act = a, .dropout = {mask, 0}};
      const Tensor y = forward(x, args);
      const Tensor zeros = Tensor::zeros({11}, dtype_of<T>);
      CHECK(different(y, zeros) == "");
      CHECK(different(backward(kept_of<A>(x, y), x, args), zeros) == "");
    }
  });
}

TEST_CASE_TEMPLATE("where the function is flat the gradient is exactly 0, of an infinite one too",
                   T, float, double) {
  int flat = 0;
  for (const double p : {0.0, 0.3}) {
    const ops::DropoutArgs dropout{math::dropout_mask(p, 1, 0, 0), 0};
    for_each_activation_case([&]<class A>(const A& a) {
      INFO(A::name, " p = ", p);
      for (const double at : {-1e30, -1e5, -12.0, -4.0, -1.4, -0.1, -0.0, 0.0, 0.1, 6.2, 8.0, 1e5,
                              1e30, -infinity, infinity}) {
        // A slope that T cannot tell from 0, at infinity that of the limit.
        const Real finite = std::isinf(at) ? std::copysign(1e30L, Real(at)) : Real(at);
        const Real slope = math::reference(computed_in<T>(a), finite).slope;
        if (slope != 0 && std::abs(slope) > ulp<T>(0) / 4) {
          continue;
        }
        ++flat;
        CAPTURE(at);
        const Tensor x = Tensor::full({64}, at, dtype_of<T>);
        const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype_of<T>};
        const Tensor y = forward(x, args);
        for (const double incoming : {infinity, -infinity, 1e30}) {
          const Tensor dy = Tensor::full({64}, incoming, dtype_of<T>);
          const Tensor dx = backward(kept_of<A>(x, y), dy, args);
          CHECK(apart_by_ulps<T>(dx, std::vector<Real>(64, 0), 0) == "");
        }
      }
    });
  }
  CHECK(flat > 150);  // or the test looks at nothing
}

TEST_CASE("an infinite gradient passes where the function is not flat") {
  for_each_activation_case([]<class A>(const A& a) {
    INFO(A::name);
    const Tensor x = Tensor::full({9}, 1.4);
    const ops::ActivationArgs args{.act = a, .dropout = {}};
    if (math::reference(a, 1.4L).slope == 0) {
      return;  // hardtanh
    }
    const Tensor dx = backward(kept_of<A>(x, forward(x, args)), Tensor::full({9}, infinity), args);
    CHECK(dx.to_vector<float>() == std::vector<float>(9, std::numeric_limits<float>::infinity()));
  });
}

// The slope of `a` at each of `inside` and 0 at each of `outside`, through an output that was kept
// in `dtype` after dropout.
template <class A>
void check_bounds(const A& a, const std::vector<double>& inside,
                  const std::vector<double>& outside) {
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (double p = 0; p < 0.99; p += 0.0625 / 3) {
      INFO(A::name, " in ", name_of(dtype), ", p = ", p);
      const ops::DropoutArgs dropout{math::dropout_mask(p, 21, 0, 0), 0};
      const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype};
      std::string wrong;
      const auto look = [&](double at, bool is_flat) {
        const Tensor x = Tensor::full({24}, at, dtype);
        const Tensor y = forward(x, args);
        const Tensor dx =
            backward(kept_of<A>(x, y), Tensor::full({24}, is_flat ? infinity : 1, dtype), args);
        const std::vector<Real> slopes = reals(dx);
        // A slope through a stored output may be off by an epsilon or two of the type.
        const double epsilon = dtype == DType::bfloat16  ? 0x1p-7
                               : dtype == DType::float16 ? 0x1p-10
                                                         : 0x1p-22;
        const Real at_stored = reals(x)[0];
        for (std::size_t i = 0; i < slopes.size(); ++i) {
          const Real wanted = is_flat || !dropout.mask.keep(i)
                                  ? 0
                                  : math::reference(a, at_stored).slope * scale_of(dropout.mask);
          const Real allowed = wanted == 0 ? 0 : 2 * Real(epsilon) * scale_of(dropout.mask);
          if (!(std::abs(slopes[i] - wanted) <= allowed)) {
            wrong = text("at ", at, ": ", slopes[i], " instead of ", wanted);
          }
        }
      };
      for (const double at : inside) {
        look(at, false);
      }
      for (const double at : outside) {
        look(at, true);
      }
      CHECK(wrong == "");
    }
  }
}

TEST_CASE("bounds are known again after dropout's scale and 16-bit storage") {
  check_bounds(math::ReLU6{}, {0.03125, 1, 3, 5.75}, {-4, -0.25, 0, 6, 6.25, 7, 1000});
  check_bounds(math::Hardtanh{}, {-0.9375, -0.25, 0.5, 0.9375}, {-4, -1, 1, 1.25, 1000});
  check_bounds(math::Hardtanh{.min_val = -0.7, .max_val = 6.1}, {-0.625, 0, 3, 5.75},
               {-2, -0.75, 6.25, 8, 1000});
  check_bounds(math::Hardtanh{.min_val = 0.3, .max_val = 0.9}, {0.375, 0.5, 0.75}, {-2, 0.25, 1});
  check_bounds(math::Hardsigmoid{}, {-2.5, -1, 0, 1, 2.5}, {-4, -3, 3, 3.25, 1000});
  check_bounds(math::ReLU{}, {0.03125, 1, 1000}, {-1000, -0.25, 0});
}

TEST_CASE("saturated ends are known again after dropout's scale and 16-bit storage") {
  check_bounds(math::Sigmoid{}, {-2, 0, 1.5}, {-1000, 1000});
  check_bounds(math::Tanh{}, {-1.5, 0, 1}, {-1000, 1000});
  check_bounds(math::Softsign{}, {-2, 0, 1}, {});
  check_bounds(math::ELU{}, {-1.5, 0.5, 2}, {-1000});
  check_bounds(math::ELU{.alpha = 0.3}, {-1.5, 0.5, 2}, {-1000});
  check_bounds(math::SELU{}, {-1.5, 0.5, 2}, {-1000});
  check_bounds(math::CELU{.alpha = 1.3}, {-1.5, 0.5, 2}, {-2000});
}

}  // namespace
}  // namespace sinter
