// What every activation promises, checked over the list; a new one is covered by its line there.

#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <string_view>
#include <type_traits>
#include <variant>

#include <doctest/doctest.h>

#include "exact_activations.h"
#include "reference.h"

namespace sinter::math {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class V, class A>
V slope_at(const A& a, V x) {
  if constexpr (derives_from_input<A>) {
    return a.derivative_from_input(x);
  } else {
    return a.derivative_from_output(a.forward(x));
  }
}

template <class V, class A>
V slope_of_nan(const A& a) {
  const auto nan = static_cast<V>(not_a_number);
  if constexpr (derives_from_input<A>) {
    return a.derivative_from_input(nan);
  } else {
    return a.derivative_from_output(nan);
  }
}

TEST_CASE("the list holds each name once, under its own identifier") {
  std::set<std::string_view> names;
  for_each_activation([&]<class A>() { names.insert(A::name); });
  CHECK(names.size() == activation_count);
  CHECK(std::variant_size_v<AnyActivation> == activation_count);
  CHECK(activation_count >= 21);
  for (const auto& exact : exact_cases()) CHECK(names.contains(exact.name));
}

TEST_CASE("known values") {
  for_each_activation([]<class A>() {
    INFO(A::name);
    for (const auto [x, y] : A::known) {
      CHECK(A{}.forward(x) == doctest::Approx(y).epsilon(1e-15).scale(1));
      CHECK(A{}.forward(static_cast<float>(x)) == doctest::Approx(y).epsilon(3e-7).scale(1));
    }
  });
}

TEST_CASE("float64 values and slopes agree with 60-digit arithmetic") {
  int seen = 0;
  for (const auto& exact : exact_cases()) {
    for_each_activation([&]<class A>() {
      if (A::name != exact.name) return;
      ++seen;
      A a{};
      std::apply(
          [&, k = 0u](auto... f) mutable {
            REQUIRE(exact.parameters.size() == sizeof...(f));
            ((a.*f.member = exact.parameters[k++]), ...);
          },
          A::fields);
      REQUIRE(a.valid());
      for (const auto& point : exact.points) {
        INFO(A::name, " at ", point.x);
        // Rounding the argument of an exponential costs |argument| epsilons in its value.
        const double relative = 1e-15 * (1 + point.x * point.x);
        CHECK(std::abs(a.forward(point.x) - point.y) <= relative * std::abs(point.y));
        const double stored = derives_from_output<A> ? 3e-16 : 0;
        CHECK(std::abs(slope_at(a, point.x) - point.slope) <=
              relative * std::abs(point.slope) + stored);
      }
    });
  }
  CHECK(seen == 28);
}

TEST_CASE("slopes are the limits of differences, away from kinks") {
  const double h = 1e-5;
  for_each_activation([&]<class A>() {
    const A a{};
    for (double x = -12; x < 24; x += 0.0371) {
      bool beside_kink = false;
      for (const double kink : a.kinks()) beside_kink |= std::abs(x - kink) < 3 * h;
      if (beside_kink) continue;
      INFO(A::name, " at ", x);
      const double difference = (a.forward(x + h) - a.forward(x - h)) / (2 * h);
      CHECK(slope_at(a, x) == doctest::Approx(difference).epsilon(2e-9).scale(1));
    }
  });
}

TEST_CASE("the slope jumps at kinks only") {
  for_each_activation([]<class A>() {
    const A a{};
    const double step = 0.001;
    for (double x = -12; x < 24; x += step) {
      bool kink_between = false;
      for (const double kink : a.kinks()) kink_between |= kink > x - step && kink < x + 2 * step;
      if (kink_between) continue;
      INFO(A::name, " at ", x);
      CHECK(std::abs(slope_at(a, x + step) - slope_at(a, x)) < 0.005);
    }
  });
}

TEST_CASE("slopes at kinks are PyTorch's") {
  CHECK(slope_at(ReLU{}, 0.0) == 0);
  CHECK(slope_at(ReLU6{}, 0.0) == 0);
  CHECK(slope_at(ReLU6{}, 6.0) == 0);
  CHECK(slope_at(Hardsigmoid{}, -3.0) == 0);
  CHECK(slope_at(Hardsigmoid{}, 3.0) == 0);
  CHECK(slope_at(Hardtanh{}, -1.0) == 0);
  CHECK(slope_at(Hardtanh{}, 1.0) == 0);
  CHECK(slope_at(Hardswish{}, -3.0) == 0);
  CHECK(slope_at(Hardswish{}, 3.0) == 1);
  CHECK(slope_at(LeakyReLU{}, 0.0) == 0.01);
  CHECK(slope_at(ELU{.alpha = 0.7}, 0.0) == 0.7);
  CHECK(slope_at(CELU{.alpha = 1.7}, 0.0) == 1);
  CHECK(slope_at(SELU{}, 0.0) == doctest::Approx(1.7580993408473766).epsilon(1e-15));
  CHECK(slope_at(Hardshrink{}, 0.5) == 0);
  CHECK(slope_at(Hardshrink{}, -0.5) == 0);
  CHECK(slope_at(Softshrink{}, 0.5) == 0);
  CHECK(slope_at(Softplus{.beta = 2, .threshold = 5}, 2.5) < 1);
}

TEST_CASE("NaN in gives NaN out") {
  for_each_activation([]<class A>() {
    INFO(A::name);
    CHECK(std::isnan(A{}.forward(not_a_number)));
    CHECK(std::isnan(A{}.forward(static_cast<float>(not_a_number))));
    CHECK(std::isnan(slope_of_nan<double>(A{})));
    CHECK(std::isnan(slope_of_nan<float>(A{})));
  });
  CHECK(std::isnan(LeakyReLU{.negative_slope = 0}.forward(not_a_number)));
  CHECK(std::isnan(Hardshrink{.lambd = 0}.forward(not_a_number)));
}

template <class V, class A>
void check_infinities(const A& a) {
  for (const V sign : {V{1}, V{-1}}) {
    INFO(A::name, " at ", sign, " * infinity");
    const V far = sign * static_cast<V>(1e30), end = sign * static_cast<V>(infinity);
    const V y = a.forward(far);
    if (std::abs(y) > 1e20) {
      CHECK(a.forward(end) == std::copysign(static_cast<V>(infinity), y));
    } else {
      CHECK(a.forward(end) == y);
    }
    CHECK(slope_at(a, end) == slope_at(a, far));
  }
}

TEST_CASE("infinities give the limits") {
  for_each_activation([]<class A>() {
    check_infinities<double>(A{});
    check_infinities<float>(A{});
  });
  check_infinities<double>(LeakyReLU{.negative_slope = 0});
  check_infinities<double>(ELU{.alpha = 0});
  check_infinities<double>(Hardshrink{.lambd = 0});
}

TEST_CASE("x * e^x keeps its digits where e^x alone is subnormal") {
  const Real x = -740;
  const double y = static_cast<double>(x * std::exp(x));
  CHECK(std::abs(SiLU{}.forward(-740.0) - y) <= 2 * std::numeric_limits<double>::denorm_min());
  CHECK(std::abs(Mish{}.forward(-740.0) - y) <= 2 * std::numeric_limits<double>::denorm_min());
  const double slope = static_cast<double>((1 + x) * std::exp(x));
  CHECK(std::abs(SiLU{}.derivative_from_input(-740.0) - slope) <=
        2 * std::numeric_limits<double>::denorm_min());
  CHECK(std::abs(Mish{}.derivative_from_input(-740.0) - slope) <=
        2 * std::numeric_limits<double>::denorm_min());
}

// y as dropout stores it in a type of `bits` significant bits.
double round_to(double v, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

template <class A>
void check_stored(const A& a, double saturated, double inside) {
  for (const int bits : {8, 11, 24}) {
    for (int threshold = 0; threshold < 65536; threshold += 97) {
      const double scale = 65536.0 / (65536 - threshold);
      const auto stored = [&](double y) {
        return round_to(round_to(y, bits) * scale, bits) / scale;
      };
      INFO(A::name, " with ", bits, " bits, threshold ", threshold);
      REQUIRE(a.derivative_from_output(stored(a.forward(saturated)), stored) == 0);
      REQUIRE(a.derivative_from_output(stored(a.forward(inside)), stored) > 0);
    }
  }
}

TEST_CASE("an output stored on its bound has slope 0, whatever dropout did to it") {
  check_stored(ReLU6{}, 7, 5.5);
  check_stored(Hardsigmoid{}, 4, 2.5);
  check_stored(Hardtanh{.min_val = -2.1, .max_val = 0.3}, 1, -1);
  check_stored(Hardtanh{.min_val = -2.1, .max_val = 0.3}, -3, -1.9);
  check_stored(Sigmoid{}, 60, 2);
  check_stored(Tanh{}, 40, 1);
  check_stored(Tanh{}, -40, -1);
  check_stored(Softsign{}, 1e30, 3);
  check_stored(SELU{}, -60, -2);
  check_stored(ELU{.alpha = 0.7}, -60, -2);
  check_stored(CELU{.alpha = 1.7}, -90, -2);
}

TEST_CASE("without a bound, derivative_from_output takes `stored` all the same") {
  CHECK(derivative_from_output(ReLU{}, 2.0, [](double y) { return y; }) == 1);
  CHECK(derivative_from_output(ReLU{}, 2.0) == 1);
}

TEST_CASE("which parameters are valid") {
  for (const double bad : {not_a_number, infinity, -infinity, -0.5}) {
    CHECK_FALSE(LeakyReLU{.negative_slope = bad}.valid());
    CHECK_FALSE(ELU{.alpha = bad}.valid());
    CHECK_FALSE(CELU{.alpha = bad}.valid());
    CHECK_FALSE(Softplus{.beta = bad}.valid());
    CHECK_FALSE(Hardshrink{.lambd = bad}.valid());
    CHECK_FALSE(Softshrink{.lambd = bad}.valid());
  }
  CHECK(LeakyReLU{.negative_slope = 0}.valid());
  CHECK(ELU{.alpha = 0}.valid());
  CHECK_FALSE(CELU{.alpha = 0}.valid());
  CHECK_FALSE(Softplus{.beta = 0}.valid());
  CHECK_FALSE(Softplus{.threshold = not_a_number}.valid());
  CHECK(Softplus{.threshold = -1}.valid());
  CHECK(Hardshrink{.lambd = 0}.valid());
  CHECK_FALSE(Hardtanh{.min_val = 1, .max_val = 1}.valid());
  CHECK_FALSE(Hardtanh{.min_val = -infinity, .max_val = 1}.valid());
  CHECK_FALSE(Hardtanh{.min_val = not_a_number}.valid());
  CHECK(Hardtanh{.min_val = 1, .max_val = 2}.valid());
}

}  // namespace
}  // namespace sinter::math
