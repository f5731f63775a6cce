// Inputs without a pattern, results as float64, and the text of an error; for programs without
// doctest too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/runtime/error.h>
#include <sinter/runtime/tensor.h>

namespace sinter::testing {

/// n numbers in (-spread, spread), the same for the same seed on every machine.
inline std::vector<double> numbers(std::int64_t n, double spread = 2.0, std::uint32_t seed = 1) {
  std::vector<double> out(static_cast<std::size_t>(n));
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (double& number : out) {
    state = state * 1664525u + 1013904223u;
    number = spread * (static_cast<double>(state >> 8) / 8388608.0 - 1.0);
  }
  return out;
}

inline Tensor tensor(const Shape& shape, double spread = 2.0, std::uint32_t seed = 1,
                     DType dtype = DType::float64) {
  return Tensor::from(numbers(shape.numel(), spread, seed), shape).to(dtype);
}

/// The elements of any tensor, of any floating type, on any device.
inline std::vector<double> doubles(const Tensor& tensor) {
  return tensor.detach().to(DType::float64).to_vector<double>();
}

/// Equal bit for bit, but for the sign of zero. NaN equals nothing, as a result should not be one.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.shape() == b.shape() && a.dtype() == b.dtype() &&
         doubles(a) == doubles(b);
}

/// The largest |a - b| / max(1, |b|); infinite where the counts differ or an element is NaN.
inline double largest_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) {
    return HUGE_VAL;
  }
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    if (!(error <= worst)) {
      worst = std::isnan(error) ? HUGE_VAL : error;
    }
  }
  return worst;
}
inline double largest_error(const Tensor& a, const Tensor& b) {
  return largest_error(doubles(a), doubles(b));
}

/// What the Error that `f` throws says, or "" where it throws none.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace sinter::testing
