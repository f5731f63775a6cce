// The gradient check of a whole model, as one call.
#pragma once

#include <functional>

#include <sinter/autograd/gradcheck.h>
#include <sinter/layers/module.h>

namespace sinter {

/// Checks the gradients of a copy of the model, in float64 on the CPU, with respect to every
/// parameter, for loss(model(x), target); dropout stays on if the model is in train mode, with the
/// same masks in every evaluation. `copy` is what is checked: pass your model by value.
template <class M, class Loss>
GradCheckReport check_model_gradient(M copy, const Tensor& x, const Tensor& target, Loss loss,
                                     const GradCheckOptions& options = {});

namespace detail {
GradCheckReport check_model(Module& model, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& loss_of_output,
                            const GradCheckOptions& options);
}  // namespace detail

template <class M, class Loss>
GradCheckReport check_model_gradient(M copy, const Tensor& x, const Tensor& target, Loss loss,
                                     const GradCheckOptions& options) {
  const Tensor fixed = is_floating(target.dtype()) ? target.to(DType::float64) : target;
  return detail::check_model(
      copy, x, [&](const Tensor& output) { return loss(output, fixed); }, options);
}

}  // namespace sinter
