// Losses of elements and their targets, all of them one op.
#include <sinter/autograd/autocast.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/loss_parts.h>

namespace sinter {
namespace {

void check_pair(const char* who, const Tensor& x, const Tensor& target) {
  check(x.defined() && target.defined() && x.shape() == target.shape() &&
            x.dtype() == target.dtype() && is_floating(x.dtype()),
        who, ": input and target must have one shape and one floating type, got ", x.dtype(), " ",
        x.shape(), " and ", target.dtype(), " ", target.shape());
}

// Whether the gradient of the target is that of x with the other sign, or there is none.
enum class Target : bool { symmetric, constant };

Tensor pointwise_loss(const char* who, const Tensor& input, const Tensor& of_target, Target kind,
                      const ops::PointwiseLossArgs& args, const Tensor& weight = {}) {
  const Tensor x = in_float32(input), target = in_float32(of_target);
  check_pair(who, x, target);
  check(kind == Target::symmetric || !needs_gradient(target), who,
        ": there is no gradient of the target; detach() it");
  Recording recording(who, {x, target});
  Tensor loss = Tensor::empty(args.each ? x.shape() : Shape{}, x.dtype(), x.device());
  Tensor gradient = recording ? Tensor::empty(x.shape(), x.dtype(), x.device()) : Tensor{};
  ops::pointwise_loss(x, target, weight, loss, gradient, args);
  if (recording) {
    recording.finish(loss, [gradient](Backward& b) {
      const Tensor dx = scaled_by_grad(b, gradient);
      b.give(0, dx);
      if (b.needs(1)) {
        b.give(1, -dx);
      }
    });
  }
  return loss;
}

}  // namespace

Tensor l1_loss(const Tensor& x, const Tensor& target, const L1Options& options) {
  return pointwise_loss("l1_loss", x, target, Target::symmetric,
                        {math::AbsoluteError{}, options.reduction, x.numel()});
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const MseOptions& options) {
  return pointwise_loss("mse_loss", x, target, Target::symmetric,
                        {math::SquaredError{}, options.reduction, x.numel()});
}

Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberOptions& options) {
  check(options.delta > 0, "huber_loss: delta must be above 0, got ", options.delta);
  return pointwise_loss("huber_loss", x, target, Target::symmetric,
                        {math::Huber{options.delta}, options.reduction, x.numel()});
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1Options& options) {
  check(options.beta >= 0, "smooth_l1_loss: beta must be at least 0, got ", options.beta);
  return pointwise_loss("smooth_l1_loss", x, target, Target::symmetric,
                        {math::SmoothAbsoluteError{options.beta}, options.reduction, x.numel()});
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& of_target,
                                        const BceWithLogitsOptions& options) {
  constexpr const char* who = "binary_cross_entropy_with_logits";
  const Tensor x = in_float32(input), target = in_float32(of_target);
  check_pair(who, x, target);
  const Tensor weight = in_float32(options.pos_weight);
  check(!weight.defined() || (x.rank() >= 1 && weight.shape() == Shape{x.shape().last()} &&
                              weight.dtype() == x.dtype()),
        who, ": pos_weight must be one number of type ", x.dtype(),
        " for each of the last dimension of ", x.shape(), ", got ", weight.dtype(), " ",
        weight.shape());
  check(!weight.defined() || !needs_gradient(weight), who,
        ": there is no gradient of pos_weight; detach() it");
  return pointwise_loss(who, x, target, Target::constant,
                        {math::BinaryCrossEntropy{}, options.reduction, x.numel()}, weight);
}

Tensor kl_div(const Tensor& input, const Tensor& of_target, const KlDivOptions& options) {
  const Tensor x = in_float32(input), target = in_float32(of_target);
  check_pair("kl_div", x, target);
  check(!options.batch_mean || (options.reduction == Reduction::mean && x.rank() >= 1),
        "kl_div: batch_mean is a mean over the first dimension; it needs one, and "
        "Reduction::mean");
  ops::PointwiseLossArgs args{math::KLDivergence{options.log_target}, options.reduction, x.numel()};
  if (options.batch_mean && x.size(0) > 0) {
    args.scale = 1.0 / static_cast<double>(x.size(0));
  }
  return pointwise_loss("kl_div", x, target, Target::constant, args);
}

}  // namespace sinter
