// What losses share.
#pragma once

#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>

namespace sinter {

/// Throws Error where labels or options do not fit logits of this shape and type.
void check_cross_entropy(const Shape& logits, DType dtype, const Tensor& labels,
                         const CrossEntropyOptions& options);
ops::CrossEntropyArgs args_of(const CrossEntropyOptions& options);
/// A gradient that the forward pass wrote, times the one that comes in: of a loss with
/// Reduction::none that has one value a row (or an element).
Tensor scaled_by_grad(const Backward& b, const Tensor& gradient);

}  // namespace sinter
