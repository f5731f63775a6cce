// Every activation and its derivative on the GPU against textbook formulas in long double:
// float16 and bfloat16 at each of their 65,536 values, float32 along a stride through all bit
// patterns. The largest errors are always printed.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

// Units of the storage type that a value or a derivative may be off by: 2 in float32, but up to 4
// for formulas in which half a dozen float32 roundings follow one another. The CPU does those in
// float64, which a GPU is too slow at, and of what a rounding loses kernels/math/fine.h carries
// along no more than the memory's pace leaves instructions for.
struct Allowance {
  std::string_view activation;
  double value;
  double derivative;
};
constexpr std::array<Allowance, 8> float32_allowances{{
    {"logsigmoid", 3, 2},  // e^-|x|, then log(1 + e)
    {"gelu", 4, 4},        // e^(-x^2 / 2) and a polynomial of degree 10
    {"gelu_tanh", 4, 4},   // e^-z of a cubic z, 1 / (1 + e), x / (1 + e)
    {"silu", 3, 4},        // the same with z = x
    {"celu", 3, 2},        // x / alpha, e^x - 1, times alpha
    {"mish", 3, 4},        // a quotient of polynomials in e^x
    {"softplus", 3, 4},    // as logsigmoid, of beta x
    {"tanhshrink", 4, 4},  // a series of degree 15; the square of a tanh
}};

template <class T>
Allowance allowance(std::string_view activation) {
  if constexpr (std::is_same_v<T, float>) {
    for (const Allowance& row : float32_allowances) {
      if (row.activation == activation) {
        return row;
      }
    }
    return {activation, 2, 2};
  } else {
    return {activation, 1, 1};
  }
}

// Where a derivative cancels, its error is that of its terms: within 0.5 of such a root it is
// measured in units of 0.125 at least.
template <class A>
bool beside_root([[maybe_unused]] Real x, [[maybe_unused]] Real slope) {
  const auto near = [x](double root) { return std::abs(x - Real{root}) <= 0.5L; };
  if constexpr (std::is_same_v<A, math::GELU>) {
    return near(-0.7517916);
  } else if constexpr (std::is_same_v<A, math::GELUTanh>) {
    return near(-0.7524614);
  } else if constexpr (std::is_same_v<A, math::SiLU>) {
    return near(-1.2784645);
  } else if constexpr (std::is_same_v<A, math::Mish>) {
    return near(-1.1924312);
  } else if constexpr (std::is_same_v<A, math::Hardswish>) {
    return near(-1.5);
  } else if constexpr (std::is_same_v<A, math::ELU> || std::is_same_v<A, math::SELU> ||
                       std::is_same_v<A, math::CELU>) {
    return slope < 0.5L;  // y + alpha, beside the lower end of y
  } else {
    return false;
  }
}

// In float32 beta * x may round onto the threshold from either side.
template <class A>
bool on_threshold([[maybe_unused]] const A& a, [[maybe_unused]] Real x) {
  if constexpr (std::is_same_v<A, math::Softplus>) {
    return std::abs(a.beta * x - a.threshold) < std::abs(a.threshold) * 0x1p-22L;
  } else {
    return false;
  }
}

// Where x is so close to a kink that its y may have been rounded onto the other side.
template <class A>
bool beside_kink(const A& a, Real x) {
  for (const double kink : a.kinks()) {
    if (std::abs(x - Real{kink}) <= 0x1p-7L * std::abs(Real{kink})) {
      return true;
    }
  }
  return false;
}

struct Measured {
  Worst value;
  Worst derivative;  // taken from the output: as a function of the stored output
  Worst through;     // such a one against the slope at x, in epsilons beyond the allowance
};

template <class T, class A>
Measured measure(const A& a, const std::vector<T>& xs, const Allowance& allowed) {
  const A known = in_float32(a);
  const ops::ActivationArgs args{.act = a, .dropout = {}, .stored = dtype_of<T>};
  const Tensor x = upload(xs);
  const Tensor y = forward<T>(x, args);
  const Tensor dx = backward<T>(kept_of<A>(x, y), filled<T>(x.shape(), 1), args);
  const std::vector<T> values = download<T>(y);
  const std::vector<T> slopes = download<T>(dx);
  const auto worst = worst_of<3>(x.numel(), [&](std::size_t i, std::array<Worst, 3>& seen) {
    const Real at = value_of(xs[i]);
    if (on_threshold(known, at)) {
      return;
    }
    const math::Reference want = exact(known, at);
    seen[0].see(error_in_units(values[i], want.y), at);
    Real slope = want.slope;
    if constexpr (math::derives_from_output<A>) {
      slope = Real{math::derivative_from_output(known, static_cast<double>(value_of(values[i])),
                                                BoundAsStored<T>{})};
      if (!beside_kink(known, at)) {
        const Real off = error_in_units(slopes[i], want.slope) - Real{allowed.derivative};
        seen[2].see(std::max(off, Real{0}) * spacing<T>(want.slope) / epsilon<T>(), at);
      }
    }
    const Real unit = beside_root<A>(at, slope) ? std::max(std::abs(slope), Real{0.125L}) : slope;
    seen[1].see(error_in_units(slopes[i], slope, unit), at);
  });
  return {worst[0], worst[1], worst[2]};
}

template <class T>
class Table {
 public:
  explicit Table(const char* what) { lines_ << what << ": largest errors in ulp, and where"; }

  template <class A>
  void check(const A& a, const std::vector<T>& xs) {
    const Allowance allowed = allowance<T>(A::name);
    const Measured found = measure<T>(a, xs, allowed);
    const std::string name = described(a);
    lines_ << "\n  " << std::left << std::setw(42) << name << " y" << cell(found.value)
           << "   dy/dx" << cell(found.derivative);
    CHECK_MESSAGE(found.value.size <= allowed.value, name,
                  ": value at x = ", static_cast<double>(found.value.at));
    CHECK_MESSAGE(found.derivative.size <= allowed.derivative, name,
                  ": derivative at x = ", static_cast<double>(found.derivative.at));
    CHECK_MESSAGE(found.through.size <= 1, name,
                  ": derivative through the output at x = ", static_cast<double>(found.through.at));
  }
  std::string str() const { return lines_.str(); }

 private:
  static std::string cell(const Worst& worst) {
    char text[64];
    std::snprintf(text, sizeof text, "%8.3f at %-14.7g", static_cast<double>(worst.size),
                  static_cast<double>(worst.at));
    return text;
  }
  std::ostringstream lines_;
};

template <class T>
std::vector<T> all_16_bit_values() {
  std::vector<T> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].bits = static_cast<std::uint16_t>(i);
  }
  return values;
}

TEST_CASE_TEMPLATE("CUDA: activations and derivatives at all 65,536 values of a 16-bit type", T,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const AllCores cores;
  const std::vector<T> xs = all_16_bit_values<T>();
  Table<T> table(std::is_same_v<T, float16> ? "float16" : "bfloat16");
  for_each_setting([&](const auto& a) { table.check(a, xs); });
  MESSAGE(table.str());
}

// Bit patterns `stride` apart, the edges, and neighbours of the places where formulas are weak.
template <class A>
std::vector<float> float32_inputs(const A& a, std::uint64_t stride) {
  constexpr float end = std::numeric_limits<float>::infinity();
  std::vector<float> xs{0.0f,
                        -0.0f,
                        end,
                        -end,
                        std::numeric_limits<float>::denorm_min(),
                        std::numeric_limits<float>::min(),
                        std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::lowest()};
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += stride) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  std::vector<double> weak{-1.1924312, -1.2784645, -0.7517916, -0.7524614, -1.5, 0, 1, -1, 20, -20};
  for (const double kink : a.kinks()) {
    weak.push_back(kink);
  }
  for (const double place : weak) {
    float up = static_cast<float>(place);
    float down = up;
    for (int k = 0; k < 300; ++k) {
      xs.push_back(up);
      xs.push_back(down);
      up = std::nextafter(up, end);
      down = std::nextafter(down, -end);
    }
  }
  for (float x = -120; x < 120; x += 0.00173f) {
    xs.push_back(x);
  }
  return xs;
}

TEST_CASE("CUDA large: float32 activations and derivatives along a stride through all inputs") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const AllCores cores;
  Table<float> table("float32");
  for_each_setting([&]<class A>(const A& a) {
    // 4.3 million inputs at the defaults, an eleventh of them at other parameters.
    const bool defaults = described(a) == described(A{});
    table.check(a, float32_inputs(a, defaults ? 997 : 10967));
  });
  MESSAGE(table.str());
}

// The slope at x or, where it is taken from the output, at the stored output; and how far beyond
// relative errors a result may be off, in units of dy * scale.
template <class T, class A>
std::pair<Real, Real> slope_and_slack(const A& a, Real x, T y, const math::DropoutMask& mask) {
  if constexpr (math::derives_from_output<A>) {
    const double unscale = mask.unscale();
    const double back = static_cast<double>(value_of(y)) * unscale;
    // 1 - y and its like are exact for y, but y / scale has been rounded to float32.
    return {math::derivative_from_output(a, back, BoundAsStored<T>{mask.scale(), unscale}),
            0x1p-22L};
  } else {
    const Real slope = math::reference(a, x).slope;
    const bool root = beside_root<A>(x, slope);
    return {slope, root ? 2 * allowance<T>(A::name).derivative * spacing<T>(0.125L) : 0};
  }
}

template <class T, class A>
void check_with_dropout(const A& a, double p, math::MaskScheme scheme) {
  const std::int64_t n = 3001;
  const std::uint64_t first = 5;
  const A known = in_float32(a);
  const math::DropoutMask mask = math::dropout_mask(p, 42, 1, 2, scheme);
  const ops::ActivationArgs args{.act = a, .dropout = {mask, first}, .stored = dtype_of<T>};
  std::vector<T> xs;
  for (const float value : inputs_for<float>(a, static_cast<std::size_t>(n))) {
    xs.push_back(T(value));
  }
  const std::vector<T> dys = random_values<T>(n, 3, -2, 2);
  const Tensor x = upload(xs);
  const Tensor y = forward<T>(x, args);
  const std::vector<T> ys = download<T>(y);
  const std::vector<T> dxs = download<T>(backward<T>(kept_of<A>(x, y), upload(dys), args));
  // The scale may carry a result into the next binade, where a relative error is twice the ulps.
  const Allowance one = allowance<T>(A::name);
  Worst value, derivative;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Real at = value_of(xs[i]);
    if (!mask.keep(first + i)) {
      const bool zeros = std::bit_cast<std::array<std::byte, sizeof(T)>>(ys[i]) ==
                             std::array<std::byte, sizeof(T)>{} &&
                         std::bit_cast<std::array<std::byte, sizeof(T)>>(dxs[i]) ==
                             std::array<std::byte, sizeof(T)>{};
      value.see(zeros ? 0 : Real{infinity}, at);
      continue;
    }
    if (on_threshold(known, at)) {
      continue;
    }
    const Real factor = value_of(dys[i]) * Real{mask.scale()};
    value.see(error_in_units(ys[i], math::reference(known, at).y * Real{mask.scale()}), at);
    const auto [slope, slack] = slope_and_slack<T>(known, at, ys[i], mask);
    const Real want = slope * factor;
    // A subnormal slope has been rounded to few digits before it is multiplied.
    const Real beyond = slack + one.derivative * spacing<float>(0);
    const Real off = error_in_units(dxs[i], want) * spacing<T>(want) - beyond * std::abs(factor);
    derivative.see(std::max(off, Real{0}) / spacing<T>(want), at);
  }
  INFO(described(a), " p = ", p, ", worst at x = ", static_cast<double>(value.at), " and ",
       static_cast<double>(derivative.at));
  CHECK(value.size <= 2 * one.value);
  CHECK(derivative.size <= 2 * one.derivative);
}

TEST_CASE_TEMPLATE("CUDA: activations with dropout, forward and backward", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    for (const double p : {0.1, 0.3, 0.5, 0.85}) {
      for_each_setting([&](const auto& a) { check_with_dropout<T>(a, p, scheme); });
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: without an activation, dropout and the identity", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::vector<T> xs = random_values<T>(1501, 5, -3, 3);
  const Tensor x = upload(xs);
  const ops::ActivationArgs args{
      .act = {}, .dropout = {math::dropout_mask(0.3, 1, 2, 3), 9}, .stored = dtype_of<T>};
  std::vector<T> wanted;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    // One product in float32, rounded once more for a 16-bit type.
    const float scaled =
        static_cast<float>(value_of(xs[i])) * static_cast<float>(args.dropout.mask.scale());
    wanted.push_back(args.dropout.mask.keep(9 + i) ? T(scaled) : T(0.0f));
  }
  CHECK(unlike(download<T>(forward<T>(x, args)), wanted) == "");
  CHECK(unlike(download<T>(backward<T>(x, x, args)), wanted) == "");
  Tensor y = poisoned<T>(x.shape());
  ops::dropout(x, y, args.dropout);
  CHECK(unlike(download<T>(y), wanted) == "");
  CHECK(unlike(download<T>(forward<T>(x, {.act = {}, .dropout = {}})), xs) == "");
  CHECK(unlike(download<T>(backward<T>(x, x, {.act = {}, .dropout = {}})), xs) == "");
}

}  // namespace
}  // namespace sinter::on_device
