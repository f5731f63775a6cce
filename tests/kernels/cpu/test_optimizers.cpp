// Parameter updates over several steps against torch.optim's rules in long double.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

constexpr int steps = 12;

// Gradients of step `step` for n parameters.
template <class T>
Tensor gradient(std::int64_t n, int step) {
  Numbers numbers(static_cast<std::uint64_t>(1000 + step));
  return random_tensor<T>({n}, numbers, -1, 1);
}

// Each step rounds a few times, and what an earlier one left is carried on.
template <class T>
double tolerance() {
  return 6 * steps * static_cast<double>(std::numeric_limits<T>::epsilon());
}

template <class T>
void check_sgd(const math::SgdOptions& o, std::int64_t n) {
  Numbers numbers(1);
  Tensor p = random_tensor<T>({n}, numbers, -2, 2);
  Tensor velocity = o.momentum == 0 ? Tensor{} : Tensor::zeros({n}, dtype_of<T>);
  std::vector<Real> parameter = reals(p);
  std::vector<Real> buffer(parameter.size());
  for (int step = 0; step < steps; ++step) {
    const Tensor g = gradient<T>(n, step);
    const std::vector<Real> slopes = reals(g);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      const Real slope = slopes[i] + Real{o.weight_decay} * parameter[i];
      Real direction = slope;
      if (o.momentum != 0) {
        buffer[i] =
            step == 0 ? slope : Real{o.momentum} * buffer[i] + (1 - Real{o.dampening}) * slope;
        direction = o.nesterov ? slope + Real{o.momentum} * buffer[i] : buffer[i];
      }
      parameter[i] -= Real{o.lr} * direction;
    }
    ops::sgd_update(p, g, velocity, math::sgd_constants<double>(o, step == 0));
  }
  CHECK(apart_by_ulps<T>(p, parameter, 0, tolerance<T>()) == "");
  if (velocity.defined()) {
    CHECK(apart_by_ulps<T>(velocity, buffer, 0, tolerance<T>()) == "");
  }
}

TEST_CASE_TEMPLATE("sgd, with everything that it can be given", T, float, double) {
  for (const math::SgdOptions& o :
       {math::SgdOptions{.lr = 0.1}, math::SgdOptions{.lr = 0.1, .weight_decay = 0.2},
        math::SgdOptions{.lr = 0.1, .dampening = 0.5},
        math::SgdOptions{.lr = 0.05, .momentum = 0.9},
        math::SgdOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.3},
        math::SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1},
        math::SgdOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true},
        math::SgdOptions{.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}}) {
    CAPTURE(o.lr);
    CAPTURE(o.momentum);
    CAPTURE(o.weight_decay);
    CAPTURE(o.nesterov);
    for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 1000, 70001}) {
      check_sgd<T>(o, n);
    }
  }
}

template <class T>
void check_adam(const math::AdamOptions& o, std::int64_t n) {
  Numbers numbers(2);
  Tensor p = random_tensor<T>({n}, numbers, -2, 2);
  Tensor m = Tensor::zeros({n}, dtype_of<T>);
  Tensor v = Tensor::zeros({n}, dtype_of<T>);
  std::vector<Real> parameter = reals(p);
  std::vector<Real> mean(parameter.size());
  std::vector<Real> square(parameter.size());
  for (int step = 1; step <= steps; ++step) {
    const Tensor g = gradient<T>(n, step);
    const std::vector<Real> slopes = reals(g);
    const Real correction1 = 1 - std::pow(Real{o.beta1}, step);
    const Real correction2 = 1 - std::pow(Real{o.beta2}, step);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      Real slope = slopes[i];
      if (o.decoupled) {
        parameter[i] *= 1 - Real{o.lr} * Real{o.weight_decay};
      } else {
        slope += Real{o.weight_decay} * parameter[i];
      }
      mean[i] = Real{o.beta1} * mean[i] + (1 - Real{o.beta1}) * slope;
      square[i] = Real{o.beta2} * square[i] + (1 - Real{o.beta2}) * slope * slope;
      parameter[i] -= Real{o.lr} / correction1 * mean[i] /
                      (std::sqrt(square[i]) / std::sqrt(correction2) + Real{o.eps});
    }
    ops::adam_update(p, g, m, v,
                     math::adam_constants<double>(o, static_cast<double>(correction1),
                                                  static_cast<double>(correction2)));
  }
  CHECK(apart_by_ulps<T>(p, parameter, 0, tolerance<T>()) == "");
  CHECK(apart_by_ulps<T>(m, mean, 0, tolerance<T>()) == "");
  CHECK(apart_by_ulps<T>(v, square, 0, tolerance<T>()) == "");
}

TEST_CASE_TEMPLATE("adam and adamw", T, float, double) {
  for (const math::AdamOptions& o :
       {math::AdamOptions{.lr = 0.01},
        math::AdamOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3},
        math::AdamOptions{.lr = 0.02, .weight_decay = 0.3},
        math::AdamOptions{.lr = 0.02, .weight_decay = 0.3, .decoupled = true}}) {
    CAPTURE(o.lr);
    CAPTURE(o.weight_decay);
    CAPTURE(o.decoupled);
    for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 1000, 70001}) {
      check_adam<T>(o, n);
    }
  }
}

TEST_CASE_TEMPLATE("a parameter without gradient stays where it is", T, float, double) {
  Tensor p = Tensor::full({5}, 1.25, dtype_of<T>);
  const Tensor g = Tensor::zeros({5}, dtype_of<T>);
  Tensor none;
  ops::sgd_update(p, g, none, math::sgd_constants<double>({.lr = 0.5}, true));
  CHECK(p.to_vector<T>() == std::vector<T>(5, T(1.25)));
  Tensor m = Tensor::zeros({5}, dtype_of<T>);
  Tensor v = Tensor::zeros({5}, dtype_of<T>);
  // 0 / (0 + eps), never 0 / 0.
  ops::adam_update(p, g, m, v, math::adam_constants<double>({.lr = 0.5}, 0.1, 0.001));
  CHECK(p.to_vector<T>() == std::vector<T>(5, T(1.25)));
}

TEST_CASE("parameters in 16 bits are updated in float32 and rounded once") {
  // Two terms that each would round away beside 1 move it together.
  Tensor p = Tensor::full({3}, 1, DType::float16);
  const Tensor g = Tensor::full({3}, 0x1.8p-12, DType::float16);
  Tensor none;
  ops::sgd_update(p, g, none,
                  math::sgd_constants<double>({.lr = 1, .weight_decay = 0x1.8p-12}, true));
  // 1 - 1.5 * 2^-11; beside 1 float16 has steps of 2^-11 downwards: to even, 1 - 2^-10.
  CHECK(p.to(DType::float32).to_vector<float>() == std::vector<float>(3, 1 - 0x1p-10f));
}

}  // namespace
}  // namespace sinter
