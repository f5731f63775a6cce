// Convolutions of images, and of sequences as images of height 1.
#include <sinter/autograd/autocast.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/window_parts.h>

namespace sinter {
namespace {

void check_parameters(const char* who, int dims, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const ops::Conv2dArgs& args) {
  check(weight.defined() && weight.rank() == dims + 2, who,
        ": the weight must be [out_channels, in_channels / groups, ",
        dims == 1 ? "kernel_size" : "kernel height, kernel width", "], got ", weight.shape());
  const std::int64_t out = weight.size(0);
  const Size2d kernel(dims == 1 ? 1 : weight.size(2), weight.shape().last());
  check_size(who, "groups", 1, args.groups, 1);
  check_size(who, "in_channels / groups", 1, weight.size(1), 1);
  check_convolution(who, dims, weight.size(1) * args.groups, out, kernel, args);
  check_images(who, dims, x, weight.size(1) * args.groups);
  check(!bias.defined() || bias.shape() == Shape{out}, who, ": the bias must be [", out,
        "] for a weight ", weight.shape(), ", got ", bias.shape());
  check(fit_one_product(x, weight) && (!bias.defined() || fit_one_product(x, bias)), who,
        ": the input is ", x.dtype(), ", the weight ", weight.dtype(), " and the bias ",
        bias.defined() ? name_of(bias.dtype()) : "absent", "; convert with to(dtype)");
}

Tensor convolved(const char* who, int dims, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const ops::Conv2dArgs& args) {
  check_parameters(who, dims, x, weight, bias, args);
  Recording recording(who, {x, weight, bias});
  const Tensor images = as_images(product_operand(x));
  const Tensor kernels = as_images(product_operand(weight));
  const Shape shape = shape_of_windows(who, dims, x, weight.size(0),
                                       {.kernel = {kernels.size(2), kernels.size(3)},
                                        .stride = args.stride,
                                        .padding = args.padding,
                                        .dilation = args.dilation},
                                       false);
  Tensor y = Tensor::empty(shape, images.dtype(), x.device());
  Tensor out = as_images(y);
  ops::conv2d_forward(images, kernels, product_operand(bias), out, args);
  if (recording) {
    recording.finish(y, [args, type = x.dtype(), of_x = images.shape(), of_weight = kernels.shape(),
                         x = recording.needs(1) ? Saved(images) : Saved(),
                         weight = recording.needs(0) ? Saved(kernels) : Saved()](Backward& b) {
      const Tensor dy = as_images(b.grad());
      if (b.needs(0)) {
        Tensor dx = Tensor::empty(of_x, type, dy.device());
        ops::conv2d_backward_input(dy, b.saved(weight), dx, args);
        b.give(0, dx);
      }
      b.write(1, of_weight, [&](Tensor& dw, bool accumulate) {
        ops::conv2d_backward_weight(b.saved(x), dy, dw, args, accumulate);
      });
      b.write(2, {of_weight[0], 1, 1},
              [&](Tensor& db, bool accumulate) { ops::sum_to(dy, db, accumulate); });
    });
  }
  return y;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Size2d stride,
              Size2d padding, Size2d dilation, std::int64_t groups) {
  return convolved("conv2d", 2, x, weight, bias, {stride, padding, dilation, groups});
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t stride,
              std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
  return convolved("conv1d", 1, x, weight, bias,
                   {{1, stride}, {0, padding}, {1, dilation}, groups});
}

}  // namespace sinter
