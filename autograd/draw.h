// How a function with dropout behind it gets its mask.
#pragma once

#include <sinter/autograd/functions.h>
#include <sinter/kernels/ops.h>

namespace sinter {

/// A call drawn from the generator, where there is something to drop. Throws Error, in `who`'s
/// name, for a p outside [0, 1] and a missing generator.
ops::DropoutArgs draw_mask(const char* who, const DropoutOptions& options);

/// Throws Error, in `who`'s name, unless x has elements of a floating type.
void check_floating(const char* who, const Tensor& x);

}  // namespace sinter
