// Matrix products, and Linear as a product and one pass after it.
#include <sinter/kernels/cuda/gemm.h>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>

namespace sinter::cuda {

void matmul(In a, In b, InOut c, const ops::MatmulArgs& args) {
  with_storage("matmul", c->dtype(), [&]<class T>(T) {
    gemm(c->device().index, c->dtype(), args.transpose_a, args.transpose_b, c->size(0), c->size(1),
         a->size(args.transpose_a ? 0 : 1), a->raw<T>(), b->raw<T>(), args.accumulate, c->raw<T>());
  });
}

void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args) {
  with_storage("linear", x->dtype(), [&]<class T>(T) {
    const int device = x->device().index;
    const std::int64_t columns = weight->size(0);
    const T* shift = bias->defined() ? bias->raw<T>() : nullptr;
    const auto product = [&](T* to) {
      gemm(device, x->dtype(), false, true, x->shape().rows(), columns, weight->size(1),
           x->raw<T>(), weight->raw<T>(), false, to);
    };
    if (args.dropout.mask.drops_everything()) {
      y->fill(0);
      if (z->defined()) {
        product(z->raw<T>());
        bias_activation<T>(device, {}, z->raw<T>(), shift, columns, nullptr, z->raw<T>(),
                           z->numel());
      }
      return;
    }
    T* kept = z->defined() ? z->raw<T>() : nullptr;
    T* before = kept != nullptr ? kept : y->raw<T>();
    product(before);
    if (args.act || shift != nullptr || kept != nullptr || !args.dropout.mask.is_identity()) {
      bias_activation(device, args, before, shift, columns, kept, y->raw<T>(), y->numel());
    }
  });
}

}  // namespace sinter::cuda
