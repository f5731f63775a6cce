// Float32 results of every copy of the kernels against long double at inputs from everywhere on the
// line: a stride through all bit patterns (subnormals and tails included) and every neighbour of
// the places where formulas are weak.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../math/reference.h"
#include "copies.h"

namespace sinter::cpu {
namespace {

using math::Real;

template <class A>
std::vector<float> inputs(const A& a) {
  std::vector<float> xs;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 8011) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(x)) xs.push_back(x);
  }
  // Roots of mish', silu', gelu', gelu_tanh', then places where implementations switch.
  std::vector<double> weak{-1.1924312, -1.2784645, -0.7517916, -0.7524614, -1.5, 0, 1, -1, 20, -20};
  for (const double kink : a.kinks()) weak.push_back(kink);
  for (const double place : weak) {
    float up = static_cast<float>(place), down = up;
    for (int k = 0; k < 200; ++k) {
      xs.push_back(up);
      xs.push_back(down);
      up = std::nextafter(up, std::numeric_limits<float>::infinity());
      down = std::nextafter(down, -std::numeric_limits<float>::infinity());
    }
  }
  for (float x = -120; x < 120; x += 0.00731f) xs.push_back(x);
  return xs;
}

struct Worst {
  Real ulps = 0;
  float x = 0;
  void see(Real error, float at) {
    if (!(error <= ulps)) ulps = error, x = at;
  }
};

// y and dy/dx of a float32 kernel, the slope through the stored output where the activation keeps
// that.
template <class A>
void run(const Kernels<float>& table, const A& a, const std::vector<float>& x,
         std::vector<float>& y, std::vector<float>& slope) {
  const auto& kernels = table.activations[math::AnyActivation(a).index()];
  const auto n = static_cast<std::int64_t>(x.size());
  const math::DropoutMask none = math::dropout_mask(0, 0, 0, 0);
  const std::vector<float> ones(x.size(), 1.0f);
  y.resize(x.size());
  slope.resize(x.size());
  kernels.forward(&a, none, 0, x.data(), y.data(), n);
  const std::vector<float>& kept = math::derives_from_input<A> ? x : y;
  kernels.backward(&a, none, 0, Stored::as_computed, kept.data(), ones.data(), slope.data(), n);
}

// The slope of an activation that is not monotonic has a root, beside which terms of size 1 cancel:
// what is promised there is absolute.
template <class A>
Real allowed_beside_a_root([[maybe_unused]] float x) {
  const auto near = [x](float root) { return std::abs(x - root) < 0.1f ? 0x1p-32L : 0.0L; };
  if constexpr (std::is_same_v<A, math::GELU> || std::is_same_v<A, math::GELUTanh>) {
    return near(-0.752f);
  } else if constexpr (std::is_same_v<A, math::SiLU>) {
    return near(-1.278f);
  } else if constexpr (std::is_same_v<A, math::Mish>) {
    return near(-1.192f);
  } else {
    return 0;
  }
}

template <class A>
void check_float32(const A& a) {
  const A exact = math::as_computed(a);
  const std::vector<float> xs = inputs(a);
  for (const auto& copy : copies<float>()) {
    std::vector<float> y, slope;
    run(*copy.table, a, xs, y, slope);
    Worst forward, backward, from_stored;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const float x = xs[i];
      const math::Reference want = math::reference(exact, x);
      forward.see(math::error_in_ulps(y[i], want.y), x);
      // The rounding of the stored output stays in a slope taken from it: one epsilon is allowed.
      const Real allowance = math::derives_from_output<A>
                                 ? Real{std::numeric_limits<float>::epsilon()}
                                 : allowed_beside_a_root<A>(x);
      if (std::abs(slope[i] - want.slope) > allowance) {
        backward.see(math::error_in_ulps(slope[i], want.slope), x);
      }
      if constexpr (math::derives_from_output<A> && !A::wide) {
        from_stored.see(math::error_in_ulps(slope[i], exact.derivative_from_output(double{y[i]})),
                        x);
      }
    }
    INFO(A::name, " on ", std::string(copy.name), " worst at x = ", forward.x, ", slope at ",
         backward.x, ", ", from_stored.x);
    CHECK(forward.ulps <= 2);
    CHECK(backward.ulps <= 2);
    CHECK(from_stored.ulps <= 2);
  }
}

TEST_CASE("float32 activations and slopes are within 2 ulp at every input") {
  math::for_each_activation([]<class A>() { check_float32(A{}); });
}

TEST_CASE("parameters that float32 cannot hold keep the accuracy") {
  using namespace math;
  check_float32(LeakyReLU{.negative_slope = 0.1});
  check_float32(LeakyReLU{.negative_slope = 0});
  check_float32(ELU{.alpha = 0.7});
  check_float32(CELU{.alpha = 1.7});
  check_float32(Softplus{.beta = 2.3, .threshold = 5});
  check_float32(Hardtanh{.min_val = -2.1, .max_val = 0.3});
  check_float32(Hardshrink{.lambd = 0.1});
  check_float32(Softshrink{.lambd = 0.1});
}

// A stride through all bit patterns, and the edges that it misses.
std::vector<float> all_over() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> xs{0.0f,
                        -0.0f,
                        infinity,
                        -infinity,
                        std::nanf(""),
                        -1.0f,
                        1.0f,
                        std::numeric_limits<float>::denorm_min(),
                        std::numeric_limits<float>::min(),
                        std::numeric_limits<float>::max()};
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 1009) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return xs;
}

TEST_CASE("elementary functions are within 1.5 ulp of float32 at every input") {
  const std::vector<float> xs = all_over();
  std::vector<float> y(xs.size());
  const auto check = [&](const char* name, Function<float> Kernels<float>::*function,
                         Real (*exact)(Real)) {
    for (const auto& copy : copies<float>()) {
      (copy.table->*function)(xs.data(), y.data(), static_cast<std::int64_t>(xs.size()));
      Worst worst;
      int wrong_kind = 0;
      for (std::size_t i = 0; i < xs.size(); ++i) {
        const Real want = exact(xs[i]);
        const auto rounded = static_cast<float>(want);
        if (std::isnan(want) || std::isinf(rounded) || std::isinf(y[i]) || std::isnan(y[i])) {
          const bool same = std::isnan(want) ? std::isnan(y[i]) : y[i] == rounded;
          wrong_kind += same ? 0 : 1;
        } else if (want == 0) {
          wrong_kind += y[i] == 0 && std::signbit(y[i]) == std::signbit(want) ? 0 : 1;
        } else {
          worst.see(math::error_in_ulps(y[i], want), xs[i]);
        }
      }
      INFO(std::string(name), " on ", std::string(copy.name), ", worst at ", worst.x);
      CHECK(worst.ulps <= 1.5);
      CHECK(wrong_kind == 0);
    }
  };
  using Table = Kernels<float>;
  check("exp", &Table::exp, [](Real x) { return std::exp(x); });
  check("log", &Table::log, [](Real x) { return std::log(x); });
  check("expm1", &Table::expm1, [](Real x) { return std::expm1(x); });
  check("log1p", &Table::log1p, [](Real x) { return std::log1p(x); });
  check("tanh", &Table::tanh, [](Real x) { return std::tanh(x); });
  check("erf", &Table::erf, [](Real x) { return std::erf(x); });
}

}  // namespace
}  // namespace sinter::cpu
