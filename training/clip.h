// Keeps gradients from being too large.
#pragma once

#include <sinter/layers/parameter.h>

namespace sinter {

/// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the root of the sum
/// of the squares of all their elements, as torch.nn.utils.clip_grad_norm_ does: between backward
/// and the optimizer's step. Returns the norm as it was, a scalar on the parameters' device, in
/// float64 for float64 gradients, else float32; the host waits for nothing, so a graph can hold it.
/// What a backward has put off is computed, so a step that would have been one kernel with its
/// products is several. A norm that is not finite spoils all gradients but zeros. Throws Error
/// unless max_norm > 0 (infinity only measures), where no parameter has a gradient, and for
/// parameters on different devices.
Tensor clip_grad_norm(const Parameters& parameters, double max_norm);
/// Holds every element of the gradients within [-clip_value, clip_value], as
/// torch.nn.utils.clip_grad_value_ does: between backward and the optimizer's step. An infinite
/// element becomes the bound, a NaN stays one. As with clip_grad_norm(), the host waits for nothing
/// and what a backward has put off is computed. Throws Error unless clip_value > 0, where no
/// parameter has a gradient, and for parameters on different devices.
void clip_grad_value(const Parameters& parameters, double clip_value);
/// The same for gradients of a loss that was multiplied by `scale` (a float32 scalar on the
/// device): they are divided by it first, and `found` (an int32 scalar there) becomes 1 where their
/// norm is not finite, else 0. GradScaler's.
Tensor unscale_grad_norm(const char* who, const Parameters& parameters, const Tensor& scale,
                         Tensor& found, double max_norm);

}  // namespace sinter
