// Sums and argmax of CUDA tensors.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>
#include <sinter/kernels/strides.h>

namespace sinter::cuda {

void sum_groups(const Tensor& partial, Tensor& y, bool accumulate) {
  with_storage("sum_groups", y.dtype(), [&]<class T>(T) {
    sum_groups(y.device().index, GroupSums<T>{partial.raw<float>(), y.raw<T>(), accumulate}, {},
               partial.size(0), partial.size(1));
  });
}

void sum_to(In x, InOut y, bool accumulate) {
  const bool is_one_type = x->dtype() == y->dtype();
  if (keeps_last_dimensions(y->shape(), x->shape()) && !(is_one_type && y->numel() == 1)) {
    const std::int64_t columns = y->numel();
    const std::int64_t rows = columns == 0 ? 0 : x->numel() / columns;
    const Tensor partial =
        Tensor::empty({sum_rows_blocks(rows), columns}, DType::float32, x->device());
    with_storage("sum_to", x->dtype(), [&]<class T>(T) {
      sum_rows(x->device().index, x->raw<T>(), rows, columns, partial.raw<float>());
    });
    sum_groups(partial, *y, accumulate);
    return;
  }
  if (!is_one_type) {
    Tensor same = Tensor::empty(x->shape(), y->dtype(), x->device());
    cast(x, same);
    sum_to(same, y, accumulate);
    return;
  }
  with_storage("sum_to", x->dtype(), [&]<class T>(T) {
    const int device = x->device().index;
    if (y->numel() == 1) {
      sum_all(device, x->raw<T>(), x->numel(), y->raw<T>(), accumulate);
      return;
    }
    Dimensions kept, summed;
    const Broadcast to_y(y->shape(), x->shape());
    std::int64_t stride = x->numel();
    for (int d = 0; d < x->rank(); ++d) {
      stride = x->size(d) == 0 ? 0 : stride / x->size(d);
      (to_y.stride(d) == 0 ? summed : kept).add(x->size(d), stride);
    }
    sum_dimensions(device, x->raw<T>(), kept, summed, y->raw<T>(), accumulate);
  });
}

void argmax(In x, Out y) {
  with_storage("argmax", x->dtype(), [&]<class T>(T) {
    argmax(x->device().index, x->raw<T>(), x->shape().rows(), x->shape().last(),
           y->raw<std::int64_t>());
  });
}

}  // namespace sinter::cuda
