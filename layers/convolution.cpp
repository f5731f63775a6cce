#include <cmath>
#include <string_view>

#include <sinter/autograd/window_parts.h>
#include <sinter/layers/convolution.h>
#include <sinter/layers/text_form.h>

namespace sinter {
namespace {

Initializer initial_of(std::int64_t elements_under_kernel) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(elements_under_kernel));
  return {-bound, bound};
}

// "conv2d(4, 6, 3x2, stride=1x2, groups=2, bias=false)"
template <class Size, class Options>
std::string text_of(std::string_view name, std::int64_t in, std::int64_t out, Size kernel,
                    const Options& options) {
  return TextForm(name)
      .value(std::to_string(in))
      .value(std::to_string(out))
      .value(Size2d(kernel).str())
      .argument_unless("stride", options.stride, 1)
      .argument_unless("padding", options.padding, 0)
      .argument_unless("dilation", options.dilation, 1)
      .argument_unless("groups", options.groups, 1)
      .argument_unless("bias", options.bias, true)
      .str();
}

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel_size,
               const Conv2dOptions& options)
    : in_channels_(in_channels),
      out_channels_(out_channels),
      kernel_size_(kernel_size),
      options_(options) {
  check_convolution("conv2d", 2, in_channels, out_channels, kernel_size,
                    {options.stride, options.padding, options.dilation, options.groups});
  const std::int64_t in = in_channels / options.groups;
  const Shape shape{out_channels, in, kernel_size.h, kernel_size.w};
  const Initializer initial = initial_of(in * kernel_size.h * kernel_size.w);
  weight_ = Parameter(shape, initial);
  if (options.bias) {
    bias_ = Parameter({out_channels}, initial);
  }
}

Tensor Conv2d::forward(const Tensor& x) {
  attach();
  return conv2d(x, weight_.value(), bias_.value(), options_.stride, options_.padding,
                options_.dilation, options_.groups);
}

void Conv2d::members(Members& members) {
  members.parameter("weight", weight_);
  members.parameter("bias", bias_);
}

std::string Conv2d::text() const {
  return text_of("conv2d", in_channels_, out_channels_, kernel_size_, options_);
}

Parameter& Conv2d::weight() {
  attach();
  return weight_;
}

Parameter& Conv2d::bias() {
  attach();
  return bias_;
}

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
               const Conv1dOptions& options)
    : in_channels_(in_channels),
      out_channels_(out_channels),
      kernel_size_(kernel_size),
      options_(options) {
  check_convolution(
      "conv1d", 1, in_channels, out_channels, {1, kernel_size},
      {{1, options.stride}, {0, options.padding}, {1, options.dilation}, options.groups});
  const std::int64_t in = in_channels / options.groups;
  const Initializer initial = initial_of(in * kernel_size);
  weight_ = Parameter({out_channels, in, kernel_size}, initial);
  if (options.bias) {
    bias_ = Parameter({out_channels}, initial);
  }
}

Tensor Conv1d::forward(const Tensor& x) {
  attach();
  return conv1d(x, weight_.value(), bias_.value(), options_.stride, options_.padding,
                options_.dilation, options_.groups);
}

void Conv1d::members(Members& members) {
  members.parameter("weight", weight_);
  members.parameter("bias", bias_);
}

std::string Conv1d::text() const {
  return text_of("conv1d", in_channels_, out_channels_, kernel_size_, options_);
}

Parameter& Conv1d::weight() {
  attach();
  return weight_;
}

Parameter& Conv1d::bias() {
  attach();
  return bias_;
}

}  // namespace sinter
