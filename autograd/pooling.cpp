// Means and maxima under sliding windows.
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/window_parts.h>

namespace sinter {
namespace {

Tensor averaged(const char* who, const Tensor& x, const Shape& shape, const ops::Pool2dArgs& args) {
  Recording recording(who, {x});
  const Tensor images = as_images(x);
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  Tensor out = as_images(y);
  ops::avg_pool2d_forward(images, out, args);
  if (recording) {
    recording.finish(y, [args, of_x = images.shape()](Backward& b) {
      Tensor dx = Tensor::empty(of_x, b.grad().dtype(), b.grad().device());
      ops::avg_pool2d_backward(as_images(b.grad()), dx, args);
      b.give(0, dx);
    });
  }
  return y;
}

}  // namespace

Tensor avg_pool2d(const Tensor& x, Size2d kernel_size, const AvgPool2dOptions& options) {
  constexpr const char* who = "avg_pool2d";
  const ops::Pool2dArgs args = args_of(who, kernel_size, options);
  check_images(who, 2, x, 0);
  return averaged(who, x, shape_of_windows(who, 2, x, x.size(1), args, options.ceil_mode), args);
}

Tensor avg_pool1d(const Tensor& x, std::int64_t kernel_size, const AvgPool1dOptions& options) {
  constexpr const char* who = "avg_pool1d";
  const ops::Pool2dArgs args = args_of(who, kernel_size, options);
  check_images(who, 1, x, 0);
  return averaged(who, x, shape_of_windows(who, 1, x, x.size(1), args, options.ceil_mode), args);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2d output_size) {
  constexpr const char* who = "adaptive_avg_pool2d";
  check_size(who, "output_size", 2, output_size, 1);
  check_images(who, 2, x, 0);
  return averaged(who, x, x.shape().with(2, output_size.h).with(3, output_size.w),
                  {.adaptive = true});
}

Tensor max_pool2d(const Tensor& x, Size2d kernel_size, const MaxPool2dOptions& options) {
  constexpr const char* who = "max_pool2d";
  const ops::Pool2dArgs args = args_of(who, kernel_size, options);
  check_images(who, 2, x, 0);
  Recording recording(who, {x});
  Tensor y = Tensor::empty(shape_of_windows(who, 2, x, x.size(1), args, options.ceil_mode),
                           x.dtype(), x.device());
  ops::max_pool2d_forward(x, y, args);
  if (recording) {
    recording.finish(y, [args, kept = Saved(x)](Backward& b) {
      const Tensor& of = b.saved(kept);
      Tensor dx = Tensor::empty(of.shape(), of.dtype(), of.device());
      ops::max_pool2d_backward(of, b.grad(), dx, args);
      b.give(0, dx);
    });
  }
  return y;
}

}  // namespace sinter
