// Batch norms on CUDA tensors.
#include <optional>

#include <sinter/kernels/cuda/batch_norm.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>

namespace sinter::cuda {
namespace {

Channels channels_of(const Tensor& x) {
  const std::int64_t planes = x.size(0) * x.size(1);
  return {x.size(0), x.size(1), planes == 0 ? 0 : x.numel() / planes};
}

template <class T>
Normalising<T> normalising(const In& mean, const In& var, const In& weight, const Tensor& bias,
                           double eps) {
  return {mean->raw<float>(), var->raw<float>(), raw_or_null<T>(*weight), raw_or_null<T>(bias),
          static_cast<float>(eps)};
}

}  // namespace

void batch_norm_statistics(In x, Out mean, Out var, InOut running_mean, InOut running_var,
                           InOut num_batches_tracked, std::optional<double> momentum) {
  with_storage("batch_norm_statistics", x->dtype(), [&]<class T>(T) {
    batch_norm_statistics(x->device().index, channels_of(*x),
                          BatchNormStatistics<T>{.x = x->raw<T>(),
                                                 .mean = mean->raw<float>(),
                                                 .var = var->raw<float>(),
                                                 .running_mean = raw_or_null<float>(*running_mean),
                                                 .running_var = raw_or_null<float>(*running_var),
                                                 .num_batches_tracked = raw_or_null<std::int64_t>(
                                                     *num_batches_tracked),
                                                 .momentum = momentum});
  });
}

void batch_norm_forward(In x, In mean, In var, In weight, In bias, In residual, Out y,
                        const ops::NormArgs& args) {
  with_storage("batch_norm_forward", x->dtype(), [&]<class T>(T) {
    if (x->numel() > 0) {
      batch_norm_forward(x->device().index, channels_of(*x),
                         normalising<T>(mean, var, weight, *bias, args.eps), x->raw<T>(),
                         raw_or_null<T>(*residual), y->raw<T>(), args.tail);
    }
  });
}

void batch_norm_backward_sums(In x, In mean, In var, In weight, In bias, In kept, In dy, Out dz,
                              Out sums, InOut dw, InOut db, const ops::NormArgs& args,
                              const ops::WeightGradientFlags& flags) {
  with_storage("batch_norm_backward_sums", x->dtype(), [&]<class T>(T) {
    if (x->numel() == 0) {
      sums->fill(0);
      add_zero(dw, flags.accumulate_weight);
      add_zero(db, flags.accumulate_bias);
      return;
    }
    batch_norm_backward_sums(x->device().index, channels_of(*x),
                             normalising<T>(mean, var, weight, *bias, args.eps),
                             BatchNormSums<T>{.x = x->raw<T>(),
                                              .kept = raw_or_null<T>(*kept),
                                              .dy = dy->raw<T>(),
                                              .dz = raw_or_null<T>(*dz),
                                              .sums = sums->raw<float>(),
                                              .dw = raw_or_null<T>(*dw),
                                              .db = raw_or_null<T>(*db),
                                              .flags = flags},
                             args.tail);
  });
}

void batch_norm_backward(In x, In mean, In var, In weight, In dz, In sums, Out dx, double eps) {
  with_storage("batch_norm_backward", x->dtype(), [&]<class T>(T) {
    if (x->numel() > 0) {
      batch_norm_backward(x->device().index, channels_of(*x),
                          normalising<T>(mean, var, weight, {}, eps), x->raw<T>(), dz->raw<T>(),
                          raw_or_null<float>(*sums), dx->raw<T>());
    }
  });
}

}  // namespace sinter::cuda
