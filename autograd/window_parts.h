// What functions and layers of sliding windows share: checks of their options. Those of sequences
// are images of height 1, `dims` is 1; their messages show the width alone.
#pragma once

#include <cstdint>

#include <sinter/autograd/functions.h>
#include <sinter/kernels/ops.h>

namespace sinter {

// All of these throw Error in `who`'s name.

/// For parts outside [least, 2^30].
void check_size(const char* who, const char* what, int dims, Size2d size, std::int64_t least);
/// For channels, kernel and arguments that make no convolution.
void check_convolution(const char* who, int dims, std::int64_t in_channels,
                       std::int64_t out_channels, Size2d kernel, const ops::Conv2dArgs& args);
/// The op's arguments, checked.
ops::Pool2dArgs args_of(const char* who, Size2d kernel, const AvgPool2dOptions& options);
ops::Pool2dArgs args_of(const char* who, std::int64_t kernel, const AvgPool1dOptions& options);
ops::Pool2dArgs args_of(const char* who, Size2d kernel, const MaxPool2dOptions& options);

/// For x that is no [N, C, H, W], or [N, C, L] where dims is 1, of a floating type, with `channels`
/// if that is not 0.
void check_images(const char* who, int dims, const Tensor& x, std::int64_t channels);
/// [N, C, L] as [N, C, 1, L], others as they are.
Tensor as_images(const Tensor& x);
/// The shape of the results, [N, channels, H', W'] or [N, channels, L']. Throws where not one
/// window fits the padded images.
Shape shape_of_windows(const char* who, int dims, const Tensor& x, std::int64_t channels,
                       const ops::Pool2dArgs& windows, bool ceil_mode);

}  // namespace sinter
