#include <sinter/autograd/draw.h>
#include <sinter/autograd/window_parts.h>

namespace sinter {
namespace {

// Sums and products of such numbers fit 63 bits.
constexpr std::int64_t largest_option = std::int64_t{1} << 30;
constexpr std::int64_t largest_image = std::int64_t{1} << 61;

std::string shown(int dims, Size2d size) { return dims == 1 ? std::to_string(size.w) : size.str(); }

Size2d covered(const ops::Pool2dArgs& args) {
  return {ops::covered(args.kernel.h, args.dilation.h),
          ops::covered(args.kernel.w, args.dilation.w)};
}

ops::Pool2dArgs checked(const char* who, int dims, const ops::Pool2dArgs& args) {
  check_size(who, "kernel_size", dims, args.kernel, 1);
  check_size(who, "stride", dims, args.stride, 1);
  check_size(who, "padding", dims, args.padding, 0);
  check_size(who, "dilation", dims, args.dilation, 1);
  const Size2d most(covered(args).h / 2, covered(args).w / 2);
  check(args.padding.h <= most.h && args.padding.w <= most.w, who, ": padding must be at most ",
        shown(dims, most), ", half of what the kernel covers, got ", shown(dims, args.padding));
  return args;
}

}  // namespace

void check_size(const char* who, const char* what, int dims, Size2d size, std::int64_t least) {
  const auto fits = [least](std::int64_t part) { return part >= least && part <= largest_option; };
  check(fits(size.h) && fits(size.w), who, ": ", what, " must be from ", least, " to ",
        largest_option, ", got ", shown(dims, size));
}

void check_convolution(const char* who, int dims, std::int64_t in_channels,
                       std::int64_t out_channels, Size2d kernel, const ops::Conv2dArgs& args) {
  check_size(who, "in_channels", 1, in_channels, 1);
  check_size(who, "out_channels", 1, out_channels, 1);
  check_size(who, "kernel_size", dims, kernel, 1);
  check_size(who, "stride", dims, args.stride, 1);
  check_size(who, "padding", dims, args.padding, 0);
  check_size(who, "dilation", dims, args.dilation, 1);
  check_size(who, "groups", 1, args.groups, 1);
  check(in_channels % args.groups == 0 && out_channels % args.groups == 0, who,
        ": groups must divide in_channels and out_channels, got ", args.groups, " groups of ",
        in_channels, " and ", out_channels, " channels");
}

ops::Pool2dArgs args_of(const char* who, Size2d kernel, const AvgPool2dOptions& options) {
  return checked(who, 2,
                 {.kernel = kernel,
                  .stride = options.stride == same_as_kernel ? kernel : options.stride,
                  .padding = options.padding,
                  .count_include_pad = options.count_include_pad});
}

ops::Pool2dArgs args_of(const char* who, std::int64_t kernel, const AvgPool1dOptions& options) {
  return checked(who, 1,
                 {.kernel = {1, kernel},
                  .stride = {1, options.stride.value_or(kernel)},
                  .padding = {0, options.padding},
                  .count_include_pad = options.count_include_pad});
}

ops::Pool2dArgs args_of(const char* who, Size2d kernel, const MaxPool2dOptions& options) {
  return checked(who, 2,
                 {.kernel = kernel,
                  .stride = options.stride == same_as_kernel ? kernel : options.stride,
                  .padding = options.padding,
                  .dilation = options.dilation});
}

void check_images(const char* who, int dims, const Tensor& x, std::int64_t channels) {
  check_floating(who, x);
  const char* const sizes = dims == 1 ? ", L]" : ", H, W]";
  const std::string wanted = channels == 0 ? "C" : std::to_string(channels);
  const bool is_one = x.rank() == dims + 1;
  const bool fits = x.rank() == dims + 2 && (channels == 0 || x.size(1) == channels);
  check(fits, who, ": expected an input of [N, ", wanted, sizes, ", got ", x.shape(),
        is_one ? "; one alone is a batch of 1" : "");
  for (int d = 1; d < x.rank(); ++d) {
    check(x.size(d) >= 1 && x.size(d) <= largest_image, who, ": an input of ", x.shape(),
          x.size(d) < 1 ? " has nothing in it to compute with" : " is too large");
  }
}

Tensor as_images(const Tensor& x) {
  return x.rank() == 3 ? x.reshape({x.size(0), x.size(1), 1, x.size(2)}) : x;
}

Shape shape_of_windows(const char* who, int dims, const Tensor& x, std::int64_t channels,
                       const ops::Pool2dArgs& windows, bool ceil_mode) {
  const Size2d size(dims == 1 ? 1 : x.size(2), x.shape().last());
  const Size2d padded(size.h + 2 * windows.padding.h, size.w + 2 * windows.padding.w);
  const Size2d needed = covered(windows);
  // As PyTorch asks for one window at least; only ceil_mode lets the first one reach beyond.
  const auto fits = [ceil_mode](std::int64_t need, std::int64_t room, std::int64_t stride) {
    return need <= room + (ceil_mode ? stride - 1 : 0);
  };
  check(fits(needed.h, padded.h, windows.stride.h) && fits(needed.w, padded.w, windows.stride.w),
        who, ": a kernel of ", shown(dims, windows.kernel), " with dilation ",
        shown(dims, windows.dilation), " covers ", shown(dims, needed),
        ", more than the padded input of ", shown(dims, padded));
  const auto count = [ceil_mode](std::int64_t of, std::int64_t kernel, std::int64_t stride,
                                 std::int64_t padding, std::int64_t dilation) {
    return ops::window_count(of, kernel, stride, padding, dilation, ceil_mode);
  };
  const std::int64_t w =
      count(size.w, windows.kernel.w, windows.stride.w, windows.padding.w, windows.dilation.w);
  if (dims == 1) {
    return {x.size(0), channels, w};
  }
  const std::int64_t h =
      count(size.h, windows.kernel.h, windows.stride.h, windows.padding.h, windows.dilation.h);
  return {x.size(0), channels, h, w};
}

}  // namespace sinter
