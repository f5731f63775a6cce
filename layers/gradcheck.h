// The gradient checks of a whole model, each as one call: float64 against finite differences, and
// any type on any device against float64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <sinter/autograd/gradcheck.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/sequential.h>

namespace sinter {

/// Checks the gradients of a copy of the model, in float64 on the CPU, with respect to every
/// parameter, for loss(model(x), target); dropout stays on if the model is in train mode, with the
/// same masks in every evaluation. `copy` is what is checked: pass your model by value.
template <class M, class Loss>
GradCheckReport check_model_gradient(M copy, const Tensor& x, const Tensor& target, Loss loss,
                                     const GradCheckOptions& options = {});

/// How far one parameter's gradient is from the float64 one.
struct ParameterGradientError {
  std::string name;
  /// The largest difference of an element, relative to the largest element of the parameter's
  /// float64 gradient, or to a hundredth of the model's largest where that is more.
  double error = 0.0;
  std::int64_t element = 0;  ///< the first where it is so large
  double gradient = 0.0;     ///< there, of the model as it is
  double expected = 0.0;     ///< there, in float64
};

struct GradientComparison {
  bool passed = true;
  double tolerance = 0.0;
  std::vector<ParameterGradientError> parameters;  ///< those that are trained, in order
  std::string worst;  ///< "2.weight, element 7: 0.5 instead of 0.25, ...", also if passed

  explicit operator bool() const { return passed; }
};

/// Compares the gradients of loss(model(x), target), for a model as it is (its device, its type,
/// its mode, the caller's Autocast scope), with those of a copy of it in float64 on the CPU, under
/// the same dropout masks. The model itself is left alone; `copy` is what is compared: pass your
/// model by value. A Sequential under CrossEntropyLoss takes the path that training takes. What the
/// float64 gradients have wrong too is for check_model_gradient() to find.
///
/// `tolerance`: of each parameter's `error`; 0 takes 1e-9 for float64, 1e-4 for float32, 2e-2 for
/// float16 and TF32 products, 0.15 for bfloat16. A value within rounding of where an activation's
/// derivative jumps counts as an error: small models and batches of 16-bit types may meet that.
template <class M, class Loss>
GradientComparison compare_model_gradient(M copy, const Tensor& x, const Tensor& target, Loss loss,
                                          double tolerance = 0.0);

namespace detail {
GradientComparison compare_models(Module& model, Module& reference,
                                  const std::function<Tensor()>& loss,
                                  const std::function<Tensor()>& reference_loss, double tolerance);
/// On the CPU, floating elements as float64.
Tensor as_reference(const Tensor& tensor);
GradCheckReport check_model(Module& model, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& loss_of_output,
                            const GradCheckOptions& options);
}  // namespace detail

template <class M, class Loss>
GradCheckReport check_model_gradient(M copy, const Tensor& x, const Tensor& target, Loss loss,
                                     const GradCheckOptions& options) {
  const Tensor fixed = detail::as_reference(target);
  return detail::check_model(
      copy, x, [&](const Tensor& output) { return loss(output, fixed); }, options);
}

template <class M, class Loss>
GradientComparison compare_model_gradient(M copy, const Tensor& x, const Tensor& target, Loss loss,
                                          double tolerance) {
  M reference = copy;
  const auto own_loss = [&]() -> Tensor {
    if constexpr (std::is_same_v<M, Sequential> && std::is_same_v<Loss, CrossEntropyLoss>) {
      return copy.cross_entropy(x, target, loss.options);
    } else {
      return loss(copy(x), target);
    }
  };
  return detail::compare_models(
      copy, reference, own_loss,
      [&] { return loss(reference(detail::as_reference(x)), detail::as_reference(target)); },
      tolerance);
}

}  // namespace sinter
