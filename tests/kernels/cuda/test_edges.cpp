// Activation with dropout on the GPU where it is easily wrong: what is dropped, p of 0 and 1, NaN,
// flat parts under an infinite gradient, bounds that went through storage, results in place.

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

constexpr math::MaskScheme schemes[] = {math::MaskScheme::lanes, math::MaskScheme::triton};

// 0 as bytes: neither -0 nor a NaN.
template <class T>
bool is_zero(T value) {
  return value_of(value) == 0 && !std::signbit(value_of(value));
}

template <class T>
std::vector<T> repeated(const std::vector<double>& kinds, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = rounded<T>(kinds[i % kinds.size()]);
  }
  return values;
}

TEST_CASE_TEMPLATE("CUDA: a dropped element is exactly 0 whatever it was; a kept NaN stays one", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::size_t n = 602;
  const Tensor x = upload(repeated<T>({not_a_number, infinity, -infinity, -1, 1e30, -1e30, 6}, n));
  for (const math::MaskScheme scheme : schemes) {
    const ops::DropoutArgs dropout{math::dropout_mask(0.5, 3, 1, 4, scheme), 2};
    const auto count_wrong = [&](const Tensor& tensor) {
      const std::vector<T> values = download<T>(tensor);
      int wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (!dropout.mask.keep(2 + i)) {
          wrong += is_zero(values[i]) ? 0 : 1;
        } else if (i % 7 == 0) {
          wrong += std::isnan(value_of(values[i])) ? 0 : 1;
        }
      }
      return wrong;
    };
    for_each_setting([&]<class A>(const A& a) {
      INFO(described(a));
      const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype_of<T>};
      const Tensor y = forward<T>(x, args);
      CHECK(count_wrong(y) == 0);
      CHECK(count_wrong(backward<T>(kept_of<A>(x, y), x, args)) == 0);
    });
    Tensor y = poisoned<T>(x.shape());
    ops::dropout(x, y, dropout);
    CHECK(count_wrong(y) == 0);
  }
}

TEST_CASE_TEMPLATE("CUDA: NaN in, NaN out; the derivative at NaN is NaN", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::int64_t n = 37;
  const auto all_nan = [](const Tensor& tensor) {
    bool all = true;
    for (const T value : download<T>(tensor)) {
      all = all && std::isnan(value_of(value));
    }
    return all;
  };
  const Tensor x = filled<T>({n}, not_a_number);
  const Tensor dy = filled<T>({n}, 1);
  for_each_setting([&]<class A>(const A& a) {
    INFO(described(a));
    const ops::ActivationArgs args{.act = a, .dropout = {}, .stored = dtype_of<T>};
    const Tensor y = filled<T>({n}, 7);
    Tensor out = y.clone();  // not poisoned: NaN is what is wanted
    ops::activation_forward(x, out, args);
    CHECK(all_nan(out));
    Tensor dx = y.clone();
    ops::activation_backward(x, dy, dx, args);
    CHECK(all_nan(dx));
  });
}

TEST_CASE_TEMPLATE("CUDA: p = 0 is no dropout, p = 1 gives zeros and no gradient", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::size_t n = 1111;
  std::vector<T> xs = random_values<T>(static_cast<std::int64_t>(n), 2, -5, 5);
  const std::vector<T> rubbish = repeated<T>({not_a_number, infinity, -infinity, 6, 0, -1}, n);
  const Tensor x = upload(xs);
  const Tensor dy = upload(random_values<T>(static_cast<std::int64_t>(n), 3, -1, 1));
  const Tensor bad = upload(rubbish);
  const std::vector<T> zeros(n, T(0.0f));
  for_each_setting([&]<class A>(const A& a) {
    INFO(described(a));
    const ops::ActivationArgs bare{.act = a, .dropout = {}, .stored = dtype_of<T>};
    const Tensor plain = forward<T>(x, bare);
    const std::vector<T> slope = download<T>(backward<T>(kept_of<A>(x, plain), dy, bare));
    for (const math::MaskScheme scheme : schemes) {
      for (const double p : {0.0, scheme == math::MaskScheme::lanes ? 0.49 / 65536 : 1e-60}) {
        const ops::ActivationArgs args{.act = a,
                                       .dropout = {math::dropout_mask(p, 9, 8, 7, scheme), 6},
                                       .stored = dtype_of<T>};
        CHECK(unlike(download<T>(forward<T>(x, args)), download<T>(plain)) == "");
        CHECK(unlike(download<T>(backward<T>(kept_of<A>(x, plain), dy, args)), slope) == "");
      }
      for (const double p :
           {1.0, scheme == math::MaskScheme::lanes ? 1 - 0.49 / 65536 : 1 - 1e-9}) {
        const ops::ActivationArgs args{.act = a,
                                       .dropout = {math::dropout_mask(p, 9, 8, 7, scheme), 6},
                                       .stored = dtype_of<T>};
        const Tensor y = forward<T>(bad, args);
        CHECK(unlike(download<T>(y), zeros) == "");
        CHECK(unlike(download<T>(backward<T>(kept_of<A>(bad, y), bad, args)), zeros) == "");
      }
    }
  });
  // And dropout by itself, with the ends of p.
  for (const double p : {0.0, 1.0}) {
    Tensor y = poisoned<T>(x.shape());
    ops::dropout(p == 0 ? x : bad, y, {math::dropout_mask(p, 1, 2, 3), 4});
    CHECK(unlike(download<T>(y), p == 0 ? xs : zeros) == "");
  }
}

TEST_CASE_TEMPLATE("CUDA: where the function is flat the gradient is 0, of an infinite one too", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  int flat = 0;
  for (const double p : {0.0, 0.3}) {
    const ops::DropoutArgs dropout{math::dropout_mask(p, 1, 0, 0), 0};
    for_each_setting([&]<class A>(const A& a) {
      std::vector<T> xs;
      for (const double place : {-1e30, -1e5, -300.0, -12.0, -4.0, -1.4, -0.1, -0.0, 0.0, 0.05,
                                 6.25, 8.0, 300.0, 1e5, 1e30, -infinity, infinity}) {
        const T x = rounded<T>(place);
        // A slope that float32 cannot tell from 0.
        if (std::abs(exact(in_float32(a), value_of(x)).slope) <= spacing<float>(0) / 4) {
          xs.insert(xs.end(), 9, x);
        }
      }
      if (xs.empty()) {
        return;
      }
      flat += static_cast<int>(xs.size() / 9);
      const Tensor x = upload(xs);
      const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype_of<T>};
      const Tensor y = forward<T>(x, args);
      for (const double incoming : {infinity, -infinity, 1e30}) {
        const Tensor dx = backward<T>(kept_of<A>(x, y), filled<T>(x.shape(), incoming), args);
        std::string wrong;
        const std::vector<T> got = download<T>(dx);
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (value_of(got[i]) != 0) {
            wrong = text("at ", value_of(xs[i]), ": ", value_of(got[i]));
          }
        }
        CHECK_MESSAGE(wrong == "", described(a), ", p = ", p, ", gradient ", incoming);
      }
    });
  }
  CHECK(flat > 100);  // or the test looks at nothing
}

TEST_CASE_TEMPLATE("CUDA: an infinite gradient passes where the function is not flat", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for_each_activation_case([]<class A>(const A& a) {
    const Tensor x = filled<T>({9}, 1.40625);
    const ops::ActivationArgs args{.act = a, .dropout = {}, .stored = dtype_of<T>};
    const Real slope = math::reference(a, 1.40625L).slope;
    if (slope != 0) {
      const Tensor y = forward<T>(x, args);
      const Tensor dx = backward<T>(kept_of<A>(x, y), filled<T>({9}, infinity), args);
      const std::vector<T> wanted(9, rounded<T>(slope > 0 ? infinity : -infinity));
      CHECK_MESSAGE(unlike(download<T>(dx), wanted) == "", described(a));
    }
  });
}

// Slopes at places strictly inside and at places on and beyond a bound, which has slope 0, for
// scales that round the bound up and down.
template <class T, class A>
void check_bounds(const A& a, const std::vector<double>& inside,
                  const std::vector<double>& outside) {
  constexpr std::size_t each = 24;
  std::vector<T> xs;
  for (const double place : inside) {
    xs.insert(xs.end(), each, rounded<T>(place));
  }
  const std::size_t first_outside = xs.size();
  for (const double place : outside) {
    xs.insert(xs.end(), each, rounded<T>(place));
  }
  std::vector<T> dys(xs.size(), T(1.0f));
  for (std::size_t i = first_outside; i < dys.size(); ++i) {
    dys[i] = rounded<T>(infinity);
  }
  const Tensor x = upload(xs);
  const Tensor dy = upload(dys);
  std::vector<double> ps{0.1, 0.3, 0.5};
  for (double p = 0; p < 0.99; p += 0.0625 / 3) {
    ps.push_back(p);
  }
  for (const double p : ps) {
    const ops::DropoutArgs dropout{math::dropout_mask(p, 21, 0, 0), 0};
    const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype_of<T>};
    const Tensor y = forward<T>(x, args);
    const std::vector<T> slopes = download<T>(backward<T>(kept_of<A>(x, y), dy, args));
    std::string wrong;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Real scale = scale_of(dropout.mask);
      const Real want = i >= first_outside || !dropout.mask.keep(i)
                            ? 0
                            : math::reference(a, value_of(xs[i])).slope * scale;
      // A slope through a stored output may be off by an epsilon or two of the type.
      const Real allowed = want == 0 ? 0 : 2 * epsilon<T>() * scale;
      if (!(std::abs(value_of(slopes[i]) - want) <= allowed)) {
        wrong = text("at ", value_of(xs[i]), ": ", value_of(slopes[i]), " instead of ", want);
      }
    }
    CHECK_MESSAGE(wrong == "", described(a), ", p = ", p);
  }
}

TEST_CASE_TEMPLATE("CUDA: bounds are known again after dropout's scale and storage", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  check_bounds<T>(math::ReLU{}, {0.03125, 1, 1000}, {-1000, -0.25, 0});
  check_bounds<T>(math::ReLU6{}, {0.03125, 1, 3, 5.75}, {-4, -0.25, 0, 6, 6.25, 7, 1000});
  check_bounds<T>(math::Hardtanh{}, {-0.9375, -0.25, 0.5, 0.9375}, {-4, -1, 1, 1.25, 1000});
  check_bounds<T>(math::Hardtanh{.min_val = -0.5, .max_val = 2}, {-0.46875, 0, 1.875},
                  {-2, -0.5, 2, 2.125, 1000});
  check_bounds<T>(math::Hardtanh{.min_val = -0.7, .max_val = 6.1}, {-0.625, 0, 3, 5.75},
                  {-2, -0.75, 6.25, 8, 1000});
  check_bounds<T>(math::Hardtanh{.min_val = 0.3, .max_val = 0.9}, {0.375, 0.5, 0.75},
                  {-2, 0.25, 1});
  check_bounds<T>(math::Hardsigmoid{}, {-2.5, -1, 0, 1, 2.5}, {-4, -3, 3, 3.25, 1000});
}

TEST_CASE_TEMPLATE("CUDA: saturated ends are known again after dropout's scale and storage", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  check_bounds<T>(math::Sigmoid{}, {-2, 0, 1.5}, {-1000, 1000});
  check_bounds<T>(math::Tanh{}, {-1.5, 0, 1}, {-1000, 1000});
  check_bounds<T>(math::ELU{}, {-1.5, 0.5, 2}, {-1000});
  check_bounds<T>(math::ELU{.alpha = 0.3}, {-1.5, 0.5, 2}, {-1000});
  check_bounds<T>(math::SELU{}, {-1.5, 0.5, 2}, {-1000});
  check_bounds<T>(math::CELU{.alpha = 1.3}, {-1.5, 0.5, 2}, {-2000});
}

TEST_CASE_TEMPLATE("CUDA: the output may be the input, the gradient the one that came in", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const Tensor x = upload(random_values<T>(40003, 8, -4, 4));
  const Tensor dy = upload(random_values<T>(40003, 9, -1, 1));
  const auto check = [&]<class A>(const A& a, double p) {
    const ops::ActivationArgs args{
        .act = a, .dropout = {math::dropout_mask(p, 6, 0, 0), 0}, .stored = dtype_of<T>};
    const Tensor y = forward<T>(x, args);
    Tensor over = x.clone();
    ops::activation_forward(over, over, args);
    CHECK(unlike(download<T>(over), download<T>(y)) == "");
    const Tensor dx = backward<T>(kept_of<A>(x, y), dy, args);
    Tensor gradient = dy.clone();
    ops::activation_backward(kept_of<A>(x, y), gradient, gradient, args);
    CHECK(unlike(download<T>(gradient), download<T>(dx)) == "");
  };
  for (const double p : {0.0, 0.25}) {
    check(math::GELU{}, p);
    check(math::Sigmoid{}, p);
  }
  const ops::DropoutArgs half{math::dropout_mask(0.5, 6, 0, 0), 1};
  Tensor y = poisoned<T>(x.shape());
  ops::dropout(x, y, half);
  Tensor over = x.clone();
  ops::dropout(over, over, half);
  CHECK(unlike(download<T>(over), download<T>(y)) == "");
}

TEST_CASE("CUDA: float64 activations are computed by the CPU") {
  if (!has_gpu()) {
    return;
  }
  const Fallback silent(FallbackPolicy::silent);
  Numbers numbers(1);
  const Tensor x = random_tensor<double>({5, 41}, numbers, -3, 3);
  const Tensor dy = random_tensor<double>({5, 41}, numbers, -3, 3);
  const ops::ActivationArgs args{.act = math::GELU{},
                                 .dropout = {math::dropout_mask(0.25, 6, 0, 0), 3},
                                 .stored = DType::float64};
  const auto run = [&](Device device) {
    Tensor y = Tensor::full(x.shape(), not_a_number, DType::float64, device);
    Tensor dx = y.clone();
    Tensor sum = Tensor::full({41}, not_a_number, DType::float64, device);
    ops::activation_forward(x.to(device), y, args);
    ops::activation_backward_bias(x.to(device), dy.to(device), dx, sum, args, false);
    return std::vector<Tensor>{y.to(Device::cpu()), dx.to(Device::cpu()), sum.to(Device::cpu())};
  };
  const std::vector<Tensor> there = run(Device::cuda());
  const std::vector<Tensor> here = run(Device::cpu());
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(different(there[i], here[i]) == "");
  }
}

}  // namespace
}  // namespace sinter::on_device
