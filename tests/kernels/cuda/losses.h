#pragma once

// What the tests of losses and sums on the GPU compare with: the CPU's op in float64, of the very
// numbers that the device holds.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "on_device.h"
#include <sinter/kernels/ops.h>

namespace sinter::on_device {

template <class T>
Tensor in_float64(const std::vector<T>& values, const Shape& shape) {
  std::vector<double> wide;
  for (const T& value : values) {
    wide.push_back(static_cast<double>(value_of(value)));
  }
  return Tensor::from(wide, shape);
}

/// The first element that is further from wanted[i] than `roundings` of float32 of wanted[i] and of
/// `beside`, and one rounding to T.
template <class T>
std::string off(const std::vector<T>& got, const std::vector<double>& wanted, double roundings,
                double beside = 0) {
  if (got.size() != wanted.size()) {
    return text(got.size(), " elements instead of ", wanted.size());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Real want = wanted[i];
    const Real value = value_of(got[i]);
    if (std::isnan(want) || std::isinf(value_of(rounded<T>(want)))) {
      if (std::isnan(want) ? !std::isnan(value) : value != value_of(rounded<T>(want))) {
        return text("element ", i, " is ", value, ", not ", want);
      }
      continue;
    }
    const Real storage = std::is_same_v<T, float> ? 0 : spacing<T>(want) / 2;
    const Real computed =
        Real{roundings} * epsilon<float>() * (std::abs(want) + Real{beside}) + spacing<float>(0);
    if (!(std::abs(value - want) <= storage + computed)) {
      return text("element ", i, " of ", got.size(), " is ", value, ", not ", want);
    }
  }
  return {};
}

inline const char* name_of(ops::Reduction reduction) {
  return reduction == ops::Reduction::mean  ? "mean"
         : reduction == ops::Reduction::sum ? "sum"
                                            : "none";
}

}  // namespace sinter::on_device
