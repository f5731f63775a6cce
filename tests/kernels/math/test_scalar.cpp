// What a GPU computes with, on the CPU: the forms of coarse.h and fine.h against the plain formulas
// in float64, by units that are as exact as the C library. The tests of CUDA have the GPU's own.
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <sinter/kernels/math/activations.h>
#include <sinter/runtime/dtype.h>

using namespace sinter;
using namespace sinter::math;

namespace {

// Without subnormals, as the GPU's units are.
float flushed(float x) { return std::abs(x) < 0x1p-126f ? 0.0f : x; }

struct HostUnit {
  static float exp2(float x) { return flushed(std::exp2(x)); }
  static float reciprocal(float x) { return flushed(1 / x); }
  static float tanh(float x) { return std::tanh(x); }
  static float min(float x, float bound) { return bound < x ? bound : x; }
  static float max(float x, float bound) { return x < bound ? bound : x; }
  static float multiply(float a, float b) {
    const volatile float product = a * b;
    return product;
  }
};

template <class T>
constexpr Grade grade = std::is_same_v<T, float>     ? Grade::float32
                        : std::is_same_v<T, float16> ? Grade::float16
                                                     : Grade::bfloat16;

template <class T>
double rounded(double x) {
  return static_cast<double>(static_cast<float>(T(static_cast<float>(x))));
}

// From x to the next value of the type away from 0.
template <class T>
double spacing(double x) {
  constexpr int digits = std::is_same_v<T, float> ? 24 : std::is_same_v<T, float16> ? 11 : 8;
  constexpr int least = std::is_same_v<T, float> ? -149 : std::is_same_v<T, float16> ? -24 : -133;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, x == 0 ? least : std::max(exponent - digits, least));
}

struct Worst {
  double size = 0;
  double at = 0;
  void see(double error, double x) {
    if (!(error <= size)) {
      size = error;
      at = x;
    }
  }
};

// Largest errors of act and of its derivative over the floats that `next` gives.
template <class A, class T, class Next>
std::pair<Worst, Worst> largest_errors(std::uint64_t count, Next next) {
  using V = Scalar<HostUnit, grade<T>>;
  const A act{};
  Worst value, derivative;
  for (std::uint64_t i = 0; i < count; ++i) {
    const float x = next(i);
    if (!std::isfinite(x)) {
      continue;
    }
    const double y = act.template forward<double>(x);
    const double got = rounded<T>(act.forward(V(x)).value);
    if (std::isfinite(rounded<T>(y))) {
      value.see(std::abs(got - y) / spacing<T>(y), x);
    }
    double slope, got_slope, least = 0;
    if constexpr (derives_from_input<A>) {
      slope = act.derivative_from_input(static_cast<double>(x));
      got_slope = act.derivative_from_input(V(x)).value;
      // Beside a root the error is that of the terms that cancel there.
      least = std::abs(x) < 2 ? spacing<T>(0.125) : 0;
    } else {
      // Where exp(x) has nearly vanished beside a constant, that constant's rounding is what is
      // left.
      least = std::is_same_v<T, float> ? spacing<T>(0.5) : 0;
      const auto stored = [](double bound) { return rounded<T>(bound); };
      const auto stored_number = [](V bound) { return V(rounded<T>(bound.value)); };
      slope = derivative_from_output(act, got, stored);
      got_slope = derivative_from_output(act, V(got), stored_number).value;
    }
    derivative.see(std::abs(rounded<T>(got_slope) - slope) / std::max(spacing<T>(slope), least), x);
  }
  return {value, derivative};
}

template <class A, class T, class Next>
void check_errors(double limit, std::uint64_t count, Next next) {
  const auto [value, derivative] = largest_errors<A, T>(count, next);
  INFO(A::name, " in ", name_of(dtype_of<T>), ": value at ", value.at, ", derivative at ",
       derivative.at);
  CHECK(value.size <= limit);
  CHECK(derivative.size <= limit);
}

template <class T>
float value_of_bits(std::uint64_t i) {
  T x;
  x.bits = static_cast<std::uint16_t>(i);
  return static_cast<float>(x);
}

}  // namespace

TEST_CASE("plain and 16-bit forms of each activation agree within 1 ulp at all 65,536 inputs") {
  for_each_activation([]<class A>() {
    check_errors<A, float16>(1, 65536, value_of_bits<float16>);
    check_errors<A, bfloat16>(1, 65536, value_of_bits<bfloat16>);
  });
}

TEST_CASE("float32 forms for a GPU are within 4 ulp of the plain ones") {
  constexpr std::uint64_t stride = 40009;
  for_each_activation([]<class A>() {
    check_errors<A, float>(4, (std::uint64_t{1} << 32) / stride, [](std::uint64_t i) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(i * stride));
    });
  });
}

TEST_CASE("a quotient of numbers is right at infinity and 0 too") {
  using V = Fine<HostUnit>;
  const float inf = std::numeric_limits<float>::infinity();
  CHECK((V(inf) / V(3.0f)).value == inf);
  CHECK((V(1.0f) / V(inf)).value == 0);
  CHECK((V(-1.0f) / V(0.0f)).value == -inf);
  CHECK(std::isnan((V(0.0f) / V(0.0f)).value));
  CHECK((V(1.0f) / V(3.0f)).value == 1.0f / 3);
}
