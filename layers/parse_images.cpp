#include <optional>

#include <sinter/layers/convolution.h>
#include <sinter/layers/parse_images.h>
#include <sinter/layers/pooling.h>
#include <sinter/layers/taker.h>

namespace sinter {
namespace {

// "3", or "3x2" for height and width. What is out of range the layer says.
Size2d size(const LayerCall& call, const LayerArgument& argument) {
  const auto sizes = call.sizes(argument, 2, 0);
  return {sizes.front(), sizes.back()};
}

// Options of a size each, by name.
class Sizes {
 public:
  Sizes(const LayerCall& call, Taker& taker) : call_(call), taker_(taker) {}
  void set(std::string_view name, Size2d& option) {
    if (const LayerArgument* const argument = taker_.find(name)) {
      option = size(call_, *argument);
    }
  }

 private:
  const LayerCall& call_;
  Taker& taker_;
};

}  // namespace

void add_conv1d(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "conv1d takes (in_channels, out_channels, kernel_size, stride=1, padding=0, "
              "dilation=1, groups=1, bias=true)");
  const std::int64_t in = call.whole_number(taker.need("in_channels"));
  const std::int64_t out = call.whole_number(taker.need("out_channels"));
  const std::int64_t kernel = call.whole_number(taker.need("kernel_size"));
  const Conv1dOptions options{.stride = taker.whole_number("stride", 1),
                              .padding = taker.whole_number("padding", 0),
                              .dilation = taker.whole_number("dilation", 1),
                              .groups = taker.whole_number("groups", 1),
                              .bias = taker.truth("bias", true)};
  taker.finish();
  model.add(Conv1d{in, out, kernel, options});
}

void add_conv2d(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "conv2d takes (in_channels, out_channels, kernel_size, stride=1, padding=0, "
              "dilation=1, groups=1, bias=true), sizes as in 3 or 3x2");
  const std::int64_t in = call.whole_number(taker.need("in_channels"));
  const std::int64_t out = call.whole_number(taker.need("out_channels"));
  const Size2d kernel = size(call, taker.need("kernel_size"));
  Conv2dOptions options;
  Sizes sizes(call, taker);
  sizes.set("stride", options.stride);
  sizes.set("padding", options.padding);
  sizes.set("dilation", options.dilation);
  options.groups = taker.whole_number("groups", 1);
  options.bias = taker.truth("bias", true);
  taker.finish();
  model.add(Conv2d{in, out, kernel, options});
}

void add_max_pool2d(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "max_pool2d takes (kernel_size, stride=kernel_size, padding=0, dilation=1, "
              "ceil_mode=false), sizes as in 3 or 3x2");
  const Size2d kernel = size(call, taker.need("kernel_size"));
  MaxPool2dOptions options;
  Sizes sizes(call, taker);
  sizes.set("stride", options.stride);
  sizes.set("padding", options.padding);
  sizes.set("dilation", options.dilation);
  options.ceil_mode = taker.truth("ceil_mode", false);
  taker.finish();
  model.add(MaxPool2d{kernel, options});
}

void add_avg_pool1d(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "avg_pool1d takes (kernel_size, stride=kernel_size, padding=0, ceil_mode=false, "
              "count_include_pad=true)");
  const std::int64_t kernel = call.whole_number(taker.need("kernel_size"));
  AvgPool1dOptions options;
  if (const LayerArgument* const stride = taker.find("stride")) {
    options.stride = call.whole_number(*stride);
  }
  options.padding = taker.whole_number("padding", 0);
  options.ceil_mode = taker.truth("ceil_mode", false);
  options.count_include_pad = taker.truth("count_include_pad", true);
  taker.finish();
  model.add(AvgPool1d{kernel, options});
}

void add_avg_pool2d(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "avg_pool2d takes (kernel_size, stride=kernel_size, padding=0, ceil_mode=false, "
              "count_include_pad=true), sizes as in 3 or 3x2");
  const Size2d kernel = size(call, taker.need("kernel_size"));
  AvgPool2dOptions options;
  Sizes sizes(call, taker);
  sizes.set("stride", options.stride);
  sizes.set("padding", options.padding);
  options.ceil_mode = taker.truth("ceil_mode", false);
  options.count_include_pad = taker.truth("count_include_pad", true);
  taker.finish();
  model.add(AvgPool2d{kernel, options});
}

void add_adaptive_avg_pool2d(const LayerCall& call, Sequential& model) {
  Taker taker(call, "adaptive_avg_pool2d takes output_size, as in 7 or 7x5");
  const Size2d output = size(call, taker.need("output_size"));
  taker.finish();
  model.add(AdaptiveAvgPool2d{output});
}

}  // namespace sinter
