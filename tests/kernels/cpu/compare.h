#pragma once

// What the tests of the CPU kernels make their inputs with, and compare results with: references
// are computed in long double in the tests, and a result is so many units in the last place away.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <sinter/runtime/parallel.h>
#include <sinter/runtime/tensor.h>
#include <sinter/runtime/text.h>

namespace sinter {

using Real = long double;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Numbers that look random and are the same everywhere (SplitMix64).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  /// In [low, high).
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  /// In [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

template <class T>
Tensor random_tensor(const Shape& shape, Numbers& numbers, double low, double high) {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  for (T& value : values) {
    value = static_cast<T>(numbers.real(low, high));
  }
  return Tensor::from(values, shape);
}

template <class T>
Tensor random_integers(const Shape& shape, Numbers& numbers, std::int64_t low, std::int64_t high) {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  for (T& value : values) {
    value = static_cast<T>(numbers.integer(low, high));
  }
  return Tensor::from(values, shape);
}

/// The elements of a float32 or float64 tensor.
inline std::vector<Real> reals(const Tensor& tensor) {
  const std::vector<double> values = tensor.detach().to(DType::float64).to_vector<double>();
  return {values.begin(), values.end()};
}

/// The distance between neighbouring values of T around x, down to that of subnormals.
template <class T>
Real ulp(Real x) {
  constexpr int lowest = std::numeric_limits<T>::min_exponent - 1;
  const int exponent = x == 0 || std::isnan(x) ? lowest : std::max(std::ilogb(x), lowest);
  return std::ldexp(Real{1}, exponent - (std::numeric_limits<T>::digits - 1));
}

/// Empty if each element lies within tolerance(i) of wanted[i]; else the first that does not.
template <class T, class Tolerance>
std::string apart(const Tensor& got, const std::vector<Real>& wanted, Tolerance tolerance) {
  const std::vector<T> values = got.to_vector<T>();
  if (values.size() != wanted.size()) {
    return text(values.size(), " elements instead of ", wanted.size());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Real value = static_cast<Real>(values[i]);
    const bool good = std::isnan(wanted[i]) ? std::isnan(value)
                      : std::isinf(static_cast<T>(wanted[i]))
                          ? value == static_cast<Real>(static_cast<T>(wanted[i]))
                          : std::abs(value - wanted[i]) <= static_cast<Real>(tolerance(i));
    if (!good) {
      std::ostringstream out;
      out.precision(20);
      out << "element " << i << " is " << value << ", not " << wanted[i] << " ("
          << std::abs(value - wanted[i]) / ulp<T>(wanted[i]) << " ulp)";
      return out.str();
    }
  }
  return {};
}

template <class T>
std::string apart_by_ulps(const Tensor& got, const std::vector<Real>& wanted, double ulps,
                          double absolute = 0) {
  return apart<T>(got, wanted, [&](std::size_t i) {
    return static_cast<Real>(ulps) * ulp<T>(wanted[i]) + static_cast<Real>(absolute);
  });
}

/// Empty if all bytes are equal; else where the first differs.
inline std::string different(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    return text(a.dtype(), " ", a.shape(), " and ", b.dtype(), " ", b.shape());
  }
  for (std::size_t i = 0; i < a.bytes(); ++i) {
    if (a.address()[i] != b.address()[i]) {
      return text("element ", i / size_of(a.dtype()), " differs");
    }
  }
  return {};
}

/// Puts back what num_threads() was.
struct KeepThreads {
  int before = num_threads();
  ~KeepThreads() { set_num_threads(before); }
};

}  // namespace sinter
