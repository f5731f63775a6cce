#include <sinter/autograd/window_parts.h>
#include <sinter/layers/pooling.h>
#include <sinter/layers/text_form.h>

namespace sinter {

MaxPool2d::MaxPool2d(Size2d kernel_size, const MaxPool2dOptions& options)
    : kernel_size_(kernel_size), options_(options) {
  args_of("max_pool2d", kernel_size, options);
}

Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, kernel_size_, options_); }

std::string MaxPool2d::text() const {
  TextForm form("max_pool2d");
  form.value(kernel_size_.str());
  if (options_.stride != same_as_kernel) {
    form.argument("stride", options_.stride);
  }
  return form.argument_unless("padding", options_.padding, 0)
      .argument_unless("dilation", options_.dilation, 1)
      .argument_unless("ceil_mode", options_.ceil_mode, false)
      .str();
}

AvgPool2d::AvgPool2d(Size2d kernel_size, const AvgPool2dOptions& options)
    : kernel_size_(kernel_size), options_(options) {
  args_of("avg_pool2d", kernel_size, options);
}

Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, kernel_size_, options_); }

std::string AvgPool2d::text() const {
  TextForm form("avg_pool2d");
  form.value(kernel_size_.str());
  if (options_.stride != same_as_kernel) {
    form.argument("stride", options_.stride);
  }
  return form.argument_unless("padding", options_.padding, 0)
      .argument_unless("ceil_mode", options_.ceil_mode, false)
      .argument_unless("count_include_pad", options_.count_include_pad, true)
      .str();
}

AvgPool1d::AvgPool1d(std::int64_t kernel_size, const AvgPool1dOptions& options)
    : kernel_size_(kernel_size), options_(options) {
  args_of("avg_pool1d", kernel_size, options);
}

Tensor AvgPool1d::forward(const Tensor& x) { return avg_pool1d(x, kernel_size_, options_); }

std::string AvgPool1d::text() const {
  TextForm form("avg_pool1d");
  form.value(std::to_string(kernel_size_));
  if (options_.stride) {
    form.argument("stride", *options_.stride);
  }
  return form.argument_unless("padding", options_.padding, 0)
      .argument_unless("ceil_mode", options_.ceil_mode, false)
      .argument_unless("count_include_pad", options_.count_include_pad, true)
      .str();
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output_size) : output_size_(output_size) {
  check_size("adaptive_avg_pool2d", "output_size", 2, output_size, 1);
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) { return adaptive_avg_pool2d(x, output_size_); }

std::string AdaptiveAvgPool2d::text() const {
  return TextForm("adaptive_avg_pool2d").value(output_size_.str()).str();
}

}  // namespace sinter
