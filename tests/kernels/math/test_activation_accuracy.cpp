// Float32 results against long double at inputs from everywhere on the line: a stride through all
// bit patterns (subnormals and tails included) and every neighbour of the places where formulas are
// weak.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "reference.h"

namespace sinter::math {
namespace {

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

template <class A>
void check_float32(const A& a) {
  const A exact = as_computed(a);
  Worst forward, slope, from_stored;
  for (const float x : inputs(a)) {
    const Reference want = reference(exact, x);
    forward.see(error_in_ulps(forward32(a, x), want.y), x);
    const float got = slope32(a, x);
    // The rounding of the stored output stays in a slope taken from it: one epsilon is allowed.
    const Real allowance = derives_from_output<A> ? Real{std::numeric_limits<float>::epsilon()} : 0;
    if (std::abs(got - want.slope) > allowance) slope.see(error_in_ulps(got, want.slope), x);
    if constexpr (derives_from_output<A> && !A::wide) {
      const float y = forward32(a, x);
      from_stored.see(error_in_ulps(got, exact.derivative_from_output(double{y})), x);
    }
  }
  INFO(A::name, " worst at x = ", forward.x, ", slope at ", slope.x, ", ", from_stored.x);
  CHECK(forward.ulps <= 2);
  CHECK(slope.ulps <= 2);
  CHECK(from_stored.ulps <= 2);
}

TEST_CASE("float32 activations and slopes are within 2 ulp at every input") {
  for_each_activation([]<class A>() { check_float32(A{}); });
}

TEST_CASE("parameters that float32 cannot hold keep the accuracy") {
  check_float32(LeakyReLU{.negative_slope = 0.1});
  check_float32(LeakyReLU{.negative_slope = 0});
  check_float32(ELU{.alpha = 0.7});
  check_float32(CELU{.alpha = 1.7});
  check_float32(Softplus{.beta = 2.3, .threshold = 5});
  check_float32(Hardtanh{.min_val = -2.1, .max_val = 0.3});
  check_float32(Hardshrink{.lambd = 0.1});
  check_float32(Softshrink{.lambd = 0.1});
}

}  // namespace
}  // namespace sinter::math
