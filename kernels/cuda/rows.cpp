// Ops on the rows of CUDA tensors: softmax, norms, gated linear units.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>

namespace sinter::cuda {

void softmax(In x, Out y, const ops::SoftmaxArgs& args) {
  if (args.dropout.mask.drops_everything()) {
    y->fill(0);
    return;
  }
  with_storage("softmax", x->dtype(), [&]<class T>(T) {
    softmax(x->device().index, x->raw<T>(), x->shape().rows(), x->shape().last(), y->raw<T>(),
            args);
  });
}

void softmax_backward(In kept, In dy, Out dx, const ops::SoftmaxArgs& args) {
  if (args.dropout.mask.drops_everything()) {
    dx->fill(0);
    return;
  }
  with_storage("softmax_backward", kept->dtype(), [&]<class T>(T) {
    softmax_backward(kept->device().index, kept->raw<T>(), dy->raw<T>(), kept->shape().rows(),
                     kept->shape().last(), dx->raw<T>(), args);
  });
}

void norm_forward(In x, In weight, In bias, Out y, Out mean, Out rstd, const ops::NormArgs& args) {
  const bool drops_everything = args.tail.dropout.mask.drops_everything();
  const std::int64_t rows = rstd->numel();
  const std::int64_t columns = rows == 0 ? 0 : x->numel() / rows;
  with_storage("norm_forward", x->dtype(), [&]<class T>(T) {
    norm_forward(x->device().index,
                 NormForward<T>{.x = x->raw<T>(),
                                .weight = raw_or_null<T>(*weight),
                                .bias = raw_or_null<T>(*bias),
                                .y = y->raw<T>(),
                                .mean = raw_or_null<float>(*mean),
                                .rstd = rstd->raw<float>(),
                                .rows = rows,
                                .columns = columns,
                                .eps = static_cast<float>(args.eps),
                                .over_columns = 1 / static_cast<float>(columns)},
                 drops_everything ? ops::ActivationArgs{} : args.tail);
  });
  if (drops_everything) {
    y->fill(0);
  }
}

void norm_backward(In x, In weight, In bias, In mean, In rstd, In dy, Out dx, InOut dw, InOut db,
                   const ops::ActivationArgs& tail, const ops::WeightGradientFlags& flags) {
  const std::int64_t rows = rstd->numel();
  if (rows == 0 || tail.dropout.mask.drops_everything()) {
    if (dx->defined()) {
      dx->fill(0);
    }
    add_zero(dw, flags.accumulate_weight);
    add_zero(db, flags.accumulate_bias);
    return;
  }
  const std::int64_t columns = x->numel() / rows;
  const std::int64_t groups = norm_groups(rows, columns);
  const auto sums_for = [&](const InOut& gradient) {
    return gradient->defined()
               ? Tensor::empty({groups, gradient->numel()}, DType::float32, x->device())
               : Tensor{};
  };
  const Tensor dw_sums = sums_for(dw), db_sums = sums_for(db);
  with_storage("norm_backward", x->dtype(), [&]<class T>(T) {
    const int device = x->device().index;
    norm_backward(device,
                  NormBackward<T>{.x = x->raw<T>(),
                                  .weight = raw_or_null<T>(*weight),
                                  .mean = raw_or_null<float>(*mean),
                                  .rstd = rstd->raw<float>(),
                                  .dy = dy->raw<T>(),
                                  .dx = raw_or_null<T>(*dx),
                                  .dw = raw_or_null<float>(dw_sums),
                                  .db = raw_or_null<float>(db_sums),
                                  .rows = rows,
                                  .columns = columns,
                                  .rows_of_group = norm_rows_of_group(rows, columns),
                                  .bias = raw_or_null<T>(*bias),
                                  .over_columns = 1 / static_cast<float>(columns)},
                  tail);
    sum_groups(
        device,
        GroupSums<T>{raw_or_null<float>(dw_sums), raw_or_null<T>(*dw), flags.accumulate_weight},
        GroupSums<T>{raw_or_null<float>(db_sums), raw_or_null<T>(*db), flags.accumulate_bias},
        groups, columns);
  });
}

void glu_forward(In x, Out y, const ops::ActivationArgs& args) {
  if (args.dropout.mask.drops_everything()) {
    y->fill(0);
    return;
  }
  with_storage("glu_forward", x->dtype(), [&]<class T>(T) {
    const T* const forward = nullptr;
    glu(x->device().index, args, x->raw<T>(), forward, y->raw<T>(), y->shape().rows(),
        y->shape().last());
  });
}

void glu_backward(In x, In dy, Out dx, const ops::ActivationArgs& args) {
  if (args.dropout.mask.drops_everything()) {
    dx->fill(0);
    return;
  }
  with_storage("glu_backward", x->dtype(), [&]<class T>(T) {
    glu(x->device().index, args, x->raw<T>(), dy->raw<T>(), dx->raw<T>(), dy->shape().rows(),
        dy->shape().last());
  });
}

}  // namespace sinter::cuda
