// Compares what backward says with finite differences, in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter {

struct GradCheckOptions {
  double step = 1e-4;       ///< largest distance of the points, relative to max(1, |x|)
  double tolerance = 1e-6;  ///< allowed error, relative to max(1, |derivative|)
  /// Elements checked of each input, spread evenly; 0 checks all.
  std::int64_t at_most = 0;
};

struct GradCheckReport {
  bool passed = true;
  std::int64_t checked = 0;
  std::int64_t at_kinks = 0;  ///< accepted since they lie between the one-sided derivatives
  double worst_error = 0.0;
  std::string worst;  ///< where the largest error was, also if passed: "input 1, element 7:
                      ///< backward says 0.5, differences say 0.25"

  explicit operator bool() const { return passed; }
};

/// Checks d(sum(f(inputs) * weights))/d(inputs) for fixed weights, element by element. f must be a
/// function of its inputs alone, of any shape; the inputs need no set_requires_grad. Where it draws
/// dropout masks, it resets its generator first. A derivative is accepted if central differences at
/// one of several step sizes agree, so that a kink near an element does not count against it; at a
/// kink itself, if it lies between the derivatives from the left and from the right. Throws Error
/// for inputs that are not float64.
GradCheckReport check_gradient(const std::function<Tensor(std::span<const Tensor> inputs)>& f,
                               std::vector<Tensor> inputs, const GradCheckOptions& options = {});

namespace detail {
/// What roundings may do to a gradient whose parameter is of this type on this device, relative to
/// its largest element, as products are computed now (Autocast, MatmulPrecision).
double gradient_tolerance(DType dtype, Device device);
}  // namespace detail

}  // namespace sinter
