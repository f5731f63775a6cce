// Element-wise ops on CUDA tensors: activations with dropout, dropout alone, arithmetic.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>
#include <sinter/kernels/strides.h>

namespace sinter::cuda {

void activation_forward(In x, Out y, const ops::ActivationArgs& args) {
  if (args.dropout.mask.drops_everything()) {
    y->fill(0);
    return;
  }
  with_storage("activation", x->dtype(), [&]<class T>(T) {
    activation_forward(x->device().index, args, x->raw<T>(), y->raw<T>(), x->numel());
  });
}

void activation_backward(In kept, In dy, Out dx, const ops::ActivationArgs& args) {
  if (args.dropout.mask.drops_everything()) {  // its scale is 0, by which nothing can be unscaled
    dx->fill(0);
    return;
  }
  with_storage("activation", dy->dtype(), [&]<class T>(T) {
    activation_backward(dy->device().index, args, kept->raw<T>(), dy->raw<T>(), dx->raw<T>(),
                        dy->numel());
  });
}

void activation_backward_bias(In kept, In dy, Out dx, InOut bias_gradient,
                              const ops::ActivationArgs& args, bool accumulate) {
  Tensor sums;
  if (!args.dropout.mask.drops_everything()) {
    sums = with_storage("activation", dy->dtype(), [&]<class T>(T) {
      return activation_backward_bias(dy->device().index, args, kept->raw<T>(), dy->raw<T>(),
                                      dx->raw<T>(), dy->shape().rows(), dy->shape().last());
    });
  }
  if (sums.defined()) {
    sum_groups(sums, *bias_gradient, accumulate);
  } else {
    activation_backward(kept, dy, dx, args);
    sum_to(*dx, bias_gradient, accumulate);
  }
}

void cast(In x, Out y) {
  with_storage("cast", x->dtype(), [&]<class From>(From) {
    with_storage("cast", y->dtype(), [&]<class To>(To) {
      cast(x->device().index, x->raw<From>(), y->raw<To>(), x->numel());
    });
  });
}

void dropout(In x, Out y, const ops::DropoutArgs& args) {
  activation_forward(x, y, {.act = {}, .dropout = args});
}

namespace {

void binary(const char* name, Arithmetic op, In a, In b, Out y) {
  with_storage(name, y->dtype(), [&]<class T>(T) {
    const int device = y->device().index;
    if (a->shape() == b->shape()) {
      arithmetic(device, op, a->raw<T>(), b->raw<T>(), y->raw<T>(), y->numel());
      return;
    }
    Walk walk;
    walk.rank = y->rank();
    const Broadcast to_a(a->shape(), y->shape());
    const Broadcast to_b(b->shape(), y->shape());
    for (int d = 0; d < walk.rank; ++d) {
      walk.size[d] = y->size(d);
      walk.stride_a[d] = to_a.stride(d);
      walk.stride_b[d] = to_b.stride(d);
    }
    arithmetic(device, op, a->raw<T>(), b->raw<T>(), y->raw<T>(), y->numel(), walk);
  });
}

}  // namespace

void add(In a, In b, Out y) { binary("add", Arithmetic::add, a, b, y); }
void subtract(In a, In b, Out y) { binary("subtract", Arithmetic::subtract, a, b, y); }
void multiply(In a, In b, Out y) { binary("multiply", Arithmetic::multiply, a, b, y); }
void divide(In a, In b, Out y) { binary("divide", Arithmetic::divide, a, b, y); }
void accumulate(In x, InOut y) { binary("accumulate", Arithmetic::add, *y, x, y); }

void affine(In x, Out y, double scale, double shift) {
  with_storage("affine", x->dtype(), [&]<class T>(T) {
    affine(x->device().index, x->raw<T>(), y->raw<T>(), x->numel(), static_cast<float>(scale),
           static_cast<float>(shift));
  });
}

}  // namespace sinter::cuda
