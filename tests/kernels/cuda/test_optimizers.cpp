// Parameter updates on the GPU against torch.optim's rules in long double: each step from a given
// state to a few roundings, and a row of steps.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

const std::vector<math::SgdOptions>& sgd_variants() {
  static const std::vector<math::SgdOptions> all{
      {.lr = 0.1},
      {.lr = 0.1, .weight_decay = 0.2},
      {.lr = 0.05, .momentum = 0.9},
      {.lr = 0.05, .momentum = 0.9, .dampening = 0.3},
      {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1},
      {.lr = 0.05, .momentum = 0.9, .nesterov = true},
      {.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}};
  return all;
}
const std::vector<math::AdamOptions>& adam_variants() {
  static const std::vector<math::AdamOptions> all{
      {.lr = 0.01},
      {.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3},
      {.lr = 0.02, .weight_decay = 0.3},
      {.lr = 0.02, .weight_decay = 0.3, .decoupled = true}};
  return all;
}
constexpr std::int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 31, 33, 65, 1000, 1025, 70001};

// The first element that is off by more than `roundings` of float32 of the terms it is made of, and
// half a unit of its storage type.
template <class T>
std::string off(const char* what, const std::vector<T>& got, const std::vector<Real>& wanted,
                const std::vector<Real>& terms, double roundings) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Real storage = std::is_same_v<T, float> ? 0 : spacing<T>(wanted[i]) / 2;
    const Real allowed = Real{roundings} * epsilon<float>() * terms[i] + storage;
    if (!(std::abs(value_of(got[i]) - wanted[i]) <= allowed)) {
      return text(what, ": element ", i, " of ", got.size(), " is ", value_of(got[i]), ", not ",
                  wanted[i], "; ");
    }
  }
  return {};
}

// One step of SGD, from a velocity that is already there unless it is the first.
template <class T>
std::string wrong_sgd(const math::SgdOptions& o, std::int64_t n, bool first_step,
                      std::int64_t shift) {
  const std::vector<T> p = random_values<T>(n, 1, -2, 2);
  const std::vector<T> g = random_values<T>(n, 2, -1, 1);
  const std::vector<T> v =
      first_step ? std::vector<T>(p.size(), T(0.0f)) : random_values<T>(n, 3, -1, 1);
  std::vector<Real> parameter, velocity, parameter_terms, velocity_terms;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Real decay = Real{o.weight_decay} * value_of(p[i]);
    const Real slope = value_of(g[i]) + decay;
    const Real old = Real{o.momentum} * value_of(v[i]);
    const Real buffer = o.momentum == 0 ? slope
                        : first_step    ? slope
                                        : old + (1 - Real{o.dampening}) * slope;
    const Real direction = o.nesterov ? slope + Real{o.momentum} * buffer : buffer;
    const Real size = std::abs(value_of(g[i])) + std::abs(decay) + std::abs(old);
    velocity.push_back(buffer);
    velocity_terms.push_back(size);
    parameter.push_back(value_of(p[i]) - Real{o.lr} * direction);
    parameter_terms.push_back(std::abs(value_of(p[i])) + 2 * Real{o.lr} * size);
  }
  Placed<T> p_there(upload(p), shift);
  const Placed<T> g_there(upload(g), 2 * shift);
  Placed<T> v_there(upload(v), 3 * shift);
  Tensor none;
  ops::sgd_update(p_there.tensor, g_there.tensor, o.momentum == 0 ? none : v_there.tensor,
                  math::sgd_constants<double>(o, first_step));
  std::string wrong = off("parameter", p_there.values(), parameter, parameter_terms, 3);
  wrong += p_there.damage() + v_there.damage();
  if (o.momentum != 0) {
    wrong += off("velocity", v_there.values(), velocity, velocity_terms, 3);
  } else {
    wrong += unlike(v_there.values(), v);
  }
  return wrong;
}

TEST_CASE_TEMPLATE("CUDA: sgd, one step", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const math::SgdOptions& o : sgd_variants()) {
    CAPTURE(o.momentum);
    CAPTURE(o.weight_decay);
    CAPTURE(o.nesterov);
    for (const std::int64_t n : lengths) {
      for (const std::int64_t shift : {0, 1}) {
        CHECK(wrong_sgd<T>(o, n, true, shift) == "");
        CHECK(wrong_sgd<T>(o, n, false, shift) == "");
      }
    }
  }
}

template <class T>
std::string wrong_adam(const math::AdamOptions& o, std::int64_t n, int step, std::int64_t shift) {
  const std::vector<T> p = random_values<T>(n, 1, -2, 2);
  const std::vector<T> g = random_values<T>(n, 2, -1, 1);
  const std::vector<T> m = random_values<T>(n, 3, -0.5, 0.5);
  const std::vector<T> v = random_values<T>(n, 4, 0.01, 0.5);
  const Real correction1 = 1 - std::pow(Real{o.beta1}, step);
  const Real correction2 = 1 - std::pow(Real{o.beta2}, step);
  std::vector<Real> parameter, mean, square, parameter_terms, mean_terms;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Real old = value_of(p[i]);
    const Real decay = Real{o.weight_decay} * old;
    const Real slope = o.decoupled ? value_of(g[i]) : value_of(g[i]) + decay;
    const Real kept = o.decoupled ? old * (1 - Real{o.lr} * Real{o.weight_decay}) : old;
    mean.push_back(Real{o.beta1} * value_of(m[i]) + (1 - Real{o.beta1}) * slope);
    mean_terms.push_back(std::abs(value_of(m[i])) + std::abs(value_of(g[i])) + std::abs(decay));
    square.push_back(Real{o.beta2} * value_of(v[i]) + (1 - Real{o.beta2}) * slope * slope);
    const Real rate =
        Real{o.lr} / correction1 / (std::sqrt(square[i]) / std::sqrt(correction2) + Real{o.eps});
    parameter.push_back(kept - rate * mean[i]);
    parameter_terms.push_back(std::abs(old) + rate * mean_terms[i]);
  }
  Placed<T> p_there(upload(p), shift);
  const Placed<T> g_there(upload(g), 2 * shift);
  Placed<T> m_there(upload(m), 3 * shift);
  Placed<T> v_there(upload(v), 5 * shift);
  ops::adam_update(p_there.tensor, g_there.tensor, m_there.tensor, v_there.tensor,
                   math::adam_constants<double>(o, static_cast<double>(correction1),
                                                static_cast<double>(correction2)));
  return off("parameter", p_there.values(), parameter, parameter_terms, 6) +
         off("mean", m_there.values(), mean, mean_terms, 3) +
         off("square", v_there.values(), square, square, 6) + p_there.damage() + m_there.damage() +
         v_there.damage();
}

TEST_CASE_TEMPLATE("CUDA: adam and adamw, one step", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const math::AdamOptions& o : adam_variants()) {
    CAPTURE(o.lr);
    CAPTURE(o.weight_decay);
    CAPTURE(o.decoupled);
    for (const std::int64_t n : lengths) {
      for (const std::int64_t shift : {0, 1}) {
        CHECK(wrong_adam<T>(o, n, 1, shift) == "");
        CHECK(wrong_adam<T>(o, n, 1000, shift) == "");
      }
    }
  }
}

// Both devices from the same start, with the same gradients; each step rounds a few times, and what
// an earlier one left is carried on.
template <class Update>
void check_row_of_steps(const char* what, Update update) {
  constexpr int steps = 12;
  const std::int64_t n = 4099;
  const auto run = [&](Device device) {
    const std::vector<float> start = random_values<float>(n, 1, -2, 2);
    std::vector<Tensor> state{Tensor::from(start, {n}, device)};
    for (int k = 0; k < 2; ++k) {
      state.push_back(Tensor::zeros({n}, DType::float32, device));
    }
    for (int step = 1; step <= steps; ++step) {
      const auto seed = static_cast<std::uint64_t>(1000 + step);
      const Tensor g = Tensor::from(random_values<float>(n, seed, -1, 1), {n}, device);
      update(state, g, step);
    }
    return state;
  };
  const std::vector<Tensor> there = run(Device::cuda());
  const std::vector<Tensor> here = run(Device::cpu());
  for (std::size_t k = 0; k < here.size(); ++k) {
    const Tensor back = there[k].to(Device::cpu());
    CHECK_MESSAGE(apart_by_ulps<float>(back, reals(here[k]), 0, 12 * steps * 0x1p-23) == "", what);
  }
}

TEST_CASE("CUDA: a row of updates goes where the CPU's goes") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const math::SgdOptions& o : sgd_variants()) {
    check_row_of_steps("sgd", [&o](std::vector<Tensor>& state, const Tensor& g, int step) {
      Tensor absent;
      ops::sgd_update(state[0], g, o.momentum == 0 ? absent : state[1],
                      math::sgd_constants<double>(o, step == 1));
    });
  }
  for (const math::AdamOptions& o : adam_variants()) {
    check_row_of_steps("adam", [&o](std::vector<Tensor>& state, const Tensor& g, int step) {
      ops::adam_update(state[0], g, state[1], state[2],
                       math::adam_constants<double>(o, 1 - std::pow(o.beta1, step),
                                                    1 - std::pow(o.beta2, step)));
    });
  }
}

TEST_CASE_TEMPLATE("CUDA: updates where nothing, an infinity or almost nothing comes in", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  Tensor absent;
  Tensor p = filled<T>({5}, 1.25);
  ops::sgd_update(p, filled<T>({5}, 0), absent, math::sgd_constants<double>({.lr = 0.5}, true));
  CHECK(unlike(download<T>(p), std::vector<T>(5, T(1.25f))) == "");
  Tensor m = filled<T>({5}, 0);
  Tensor v = filled<T>({5}, 0);
  // 0 / (0 + eps), never 0 / 0.
  ops::adam_update(p, filled<T>({5}, 0), m, v,
                   math::adam_constants<double>({.lr = 0.5}, 0.1, 0.001));
  CHECK(unlike(download<T>(p), std::vector<T>(5, T(1.25f))) == "");
  ops::sgd_update(p, filled<T>({5}, not_a_number), absent,
                  math::sgd_constants<double>({.lr = 0.5}, true));
  CHECK(std::isnan(value_of(download<T>(p)[4])));
}

TEST_CASE("CUDA: a moving average ends at 0, not at a subnormal, as on the CPU") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  Tensor p = filled<float>({3}, 1);
  Tensor velocity = filled<float>({3}, 0x1p-126);
  ops::sgd_update(p, filled<float>({3}, 0), velocity,
                  math::sgd_constants<double>({.lr = 0.1, .momentum = 0.5}, false));
  CHECK(unlike(download<float>(velocity), std::vector<float>(3, 0.0f)) == "");
  Tensor mean = filled<float>({3}, 0x1p-126);
  Tensor square = filled<float>({3}, 1);
  ops::adam_update(p, filled<float>({3}, 0), mean, square,
                   math::adam_constants<double>({.lr = 0.1}, 0.5, 0.5));
  CHECK(unlike(download<float>(mean), std::vector<float>(3, 0.0f)) == "");
}

TEST_CASE("CUDA: parameters in 16 bits are updated in float32 and rounded once") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  // Two terms that each would round away beside 1 move it together: 1 - 1.5 * 2^-11, which between
  // steps of 2^-11 rounds to even, 1 - 2^-10.
  Tensor p = filled<float16>({3}, 1);
  Tensor absent;
  ops::sgd_update(p, filled<float16>({3}, 0x1.8p-12), absent,
                  math::sgd_constants<double>({.lr = 1, .weight_decay = 0x1.8p-12}, true));
  CHECK(unlike(download<float16>(p), std::vector<float16>(3, float16(1 - 0x1p-10f))) == "");
}

}  // namespace
}  // namespace sinter::on_device
