// Batch normalisation, with what stands behind it in the same pass.
#include <cmath>
#include <optional>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/draw.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/norm_parts.h>

namespace sinter {
namespace {

constexpr const char* who = "batch_norm";

void check_running(const Tensor& x, const RunningStatistics& running) {
  const Shape channels{x.size(1)};
  const DType dtype = statistics_type(x.dtype());
  check(running.mean.defined() == running.var.defined() &&
            running.mean.defined() == running.num_batches_tracked.defined(),
        who, ": running statistics are mean, var and num_batches_tracked, all of them or none");
  check_affine(who, "the running mean", running.mean, channels, dtype);
  check_affine(who, "the running variance", running.var, channels, dtype);
  check_affine(who, "num_batches_tracked", running.num_batches_tracked, {}, DType::int64);
}

void check_arguments(const Tensor& x, const RunningStatistics& running, const Tensor& weight,
                     const Tensor& bias, bool training, const BatchNormTail& tail) {
  check_floating(who, x);
  check(x.rank() >= 2 && x.size(1) >= 1, who, ": expected an input [N, C, ...], got ", x.shape());
  const std::int64_t values = x.numel() / x.size(1);
  check(!training || values > 1, who,
        ": expected more than 1 value per channel in training, got an input ", x.shape());
  check(training || running.mean.defined(), who,
        ": outside of training it needs running statistics");
  check_running(x, running);
  check_affine(who, "weight", weight, {x.size(1)}, x.dtype());
  check_affine(who, "bias", bias, {x.size(1)}, x.dtype());
  check_affine(who, "the residual", tail.residual, x.shape(), x.dtype());
  if (tail.act) {
    check_activation(who, *tail.act);
  }
}

}  // namespace

void check_batch_norm_options(const char* name, double eps, std::optional<double> momentum) {
  check(std::isfinite(eps) && eps > 0, name, ": eps must be finite and above 0, got ", eps);
  check(!momentum || (*momentum >= 0 && *momentum <= 1), name,
        ": momentum must lie in [0, 1], got ", momentum.value_or(0));
}

Tensor batch_norm(const Tensor& of_input, const RunningStatistics& running, const Tensor& of_weight,
                  const Tensor& of_bias, bool training, std::optional<double> momentum, double eps,
                  const BatchNormTail& of_tail) {
  const Tensor x = in_float32(of_input), weight = in_float32(of_weight), bias = in_float32(of_bias);
  BatchNormTail tail = of_tail;
  tail.residual = in_float32(tail.residual);
  check_arguments(x, running, weight, bias, training, tail);
  check_batch_norm_options(who, eps, momentum);
  const Tensor& residual = tail.residual;
  Recording recording(who, {x, weight, bias, residual});
  const ops::NormArgs args{eps, {tail.act, draw_mask(who, tail.dropout), x.dtype()}};
  const Shape channels{x.size(1)};
  const DType type = statistics_type(x.dtype());
  Tensor mean = running.mean, var = running.var;
  if (training) {
    mean = Tensor::empty(channels, type, x.device());
    var = Tensor::empty(channels, type, x.device());
    Tensor running_mean = running.mean, running_var = running.var;
    Tensor count = running.num_batches_tracked;
    ops::batch_norm_statistics(x, mean, var, running_mean, running_var, count, momentum);
  }
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::batch_norm_forward(x, mean, var, weight, bias, residual, y, args);
  if (!recording) {
    return y;
  }
  if (!training) {
    // A pass in training before backward changes the running statistics.
    mean = mean.clone();
    var = var.clone();
  }
  const bool has_tail = tail.act || !args.tail.dropout.mask.is_identity();
  const bool from_z = tail.act && math::needs_input(*tail.act);
  recording.finish(
      y, [args, training, has_tail, channels, type, x = Saved(x), mean = Saved(mean),
          var = Saved(var), weight = Saved(weight), bias = Saved(from_z ? bias : Tensor{}),
          kept = Saved(from_z     ? residual
                       : tail.act ? y
                                  : Tensor{}),
          parameters = AffineParameters(1, weight, bias, channels)](Backward& b) {
        const Tensor& in = b.saved(x);
        const Tensor& center = b.saved(mean);
        const Tensor& spread = b.saved(var);
        const bool needs_sums = b.needs(1) || b.needs(2) || (training && b.needs(0));
        Tensor dz = has_tail ? b.over_grad() : Tensor{}, sums;
        if (has_tail || needs_sums) {
          sums = Tensor::empty({2, channels[0]}, type, in.device());
          parameters.write(b, [&](Tensor& dw, Tensor& db, const ops::WeightGradientFlags& flags) {
            ops::batch_norm_backward_sums(in, center, spread, b.saved(weight), b.saved(bias),
                                          b.saved(kept), b.grad(), dz, sums, dw, db, args, flags);
          });
        }
        const Tensor& of_z = has_tail ? dz : b.grad();
        if (b.needs(0)) {
          Tensor dx = Tensor::empty(in.shape(), in.dtype(), in.device());
          ops::batch_norm_backward(in, center, spread, b.saved(weight), of_z,
                                   training ? sums : Tensor{}, dx, args.eps);
          b.give(0, dx);
        }
        b.give(3, of_z);
      });
  return y;
}

}  // namespace sinter
