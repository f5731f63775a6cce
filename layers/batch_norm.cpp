#include <string>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/norm_parts.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/text_form.h>

namespace sinter {

BatchNorm::BatchNorm(const char* name, const char* expected, int least_rank, int most_rank,
                     std::int64_t num_features, const BatchNormOptions& options)
    : NormModule(name, options.act, options.drop_p),
      name_(name),
      expected_(expected),
      least_rank_(least_rank),
      most_rank_(most_rank),
      num_features_(num_features),
      options_(options) {
  check(num_features >= 1, name, ": num_features must be at least 1, got ", num_features);
  check_batch_norm_options(name, options.eps, options.momentum);
  const Shape channels{num_features};
  if (options.affine) {
    weight_ = Parameter(channels, {1, 1});
    bias_ = Parameter(channels, {0, 0});
  }
  if (options.track_running_stats) {
    running_mean_ = Buffer(channels, 0);
    running_var_ = Buffer(channels, 1);
    num_batches_tracked_ = Buffer({}, 0, DType::int64);
  }
}

void BatchNorm::check_input(const Tensor& x) const {
  const bool fits = x.rank() >= least_rank_ && x.rank() <= most_rank_ && x.size(1) == num_features_;
  const Tensor& here = weight_.present() ? weight_.value() : running_mean_.value();
  const bool is_here = !here.defined() || x.device() == here.device();
  // Running statistics alone are float32 for 16-bit inputs too.
  const bool has_type = weight_.present()
                            ? fit_one_product(x, here)
                            : !here.defined() || statistics_type(x.dtype()) == here.dtype();
  if (fits && is_here && has_type) {
    return;  // the sentences below cost more than a small batch
  }
  check(fits, text(), ": expected an input ", expected_, " with C = ", num_features_, ", got ",
        x.shape());
  check(is_here, text(), ": the input is on ", x.device(), " and the layer on ", here.device(),
        "; move one with to(device)");
  check(has_type, text(), ": the input is ", x.dtype(), " and the layer ", here.dtype(),
        "; convert one with to(dtype)");
}

Tensor BatchNorm::run(const Tensor& x, const BatchNormTail& tail) {
  attach();
  check_input(x);
  return batch_norm(x, {running_mean_.value(), running_var_.value(), num_batches_tracked_.value()},
                    weight_.value(), bias_.value(), training() || !options_.track_running_stats,
                    options_.momentum, options_.eps, tail);
}

Tensor BatchNorm::forward(const Tensor& x, const Tensor& residual) {
  return run(x, {residual, act(), dropout_now()});
}

Tensor BatchNorm::forward(const Tensor& x, const math::AnyActivation& next,
                          const DropoutOptions& dropout) {
  check_bare();
  return run(x, {{}, next, dropout});
}

void BatchNorm::members(Members& members) {
  members.parameter("weight", weight_);
  members.parameter("bias", bias_);
  members.buffer("running_mean", running_mean_);
  members.buffer("running_var", running_var_);
  members.buffer("num_batches_tracked", num_batches_tracked_);
}

// Only what differs from the defaults is written.
std::string BatchNorm::text() const {
  const BatchNormOptions usual;
  TextForm form(name_);
  form.value(std::to_string(num_features_)).argument_unless("eps", options_.eps, usual.eps);
  if (!options_.momentum) {
    form.value("momentum=none");
  } else {
    form.argument_unless("momentum", *options_.momentum, *usual.momentum);
  }
  form.argument_unless("affine", options_.affine, usual.affine)
      .argument_unless("track_running_stats", options_.track_running_stats,
                       usual.track_running_stats);
  write_tail(form);
  return form.str();
}

Parameter& BatchNorm::weight() {
  attach();
  return weight_;
}

Parameter& BatchNorm::bias() {
  attach();
  return bias_;
}

}  // namespace sinter
