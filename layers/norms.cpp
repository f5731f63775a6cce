#include <sinter/layers/norms.h>
#include <sinter/layers/text_form.h>

namespace sinter {
namespace {

constexpr Initializer ones{1, 1}, zeros{0, 0};

// "4x7"
std::string text_of(const Shape& shape) {
  std::string out;
  for (const std::int64_t size : shape.sizes()) {
    out += (out.empty() ? "" : "x") + std::to_string(size);
  }
  return out;
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : NormModule("layer_norm", options.act, options.drop_p),
      normalized_shape_(normalized_shape),
      options_(options) {
  check_norm_options("layer_norm", normalized_shape, options.eps);
  if (options.elementwise_affine) {
    weight_ = Parameter(normalized_shape, ones);
    if (options.bias) {
      bias_ = Parameter(normalized_shape, zeros);
    }
  }
}

Tensor LayerNorm::forward(const Tensor& x, const math::AnyActivation& next,
                          const DropoutOptions& dropout) {
  check_bare();
  return run(x, {next, dropout});
}

Tensor LayerNorm::run(const Tensor& x, const NormTail& tail) {
  attach();
  return layer_norm(x, normalized_shape_, weight_.value(), bias_.value(), options_.eps, tail);
}

void LayerNorm::members(Members& members) {
  members.parameter("weight", weight_);
  members.parameter("bias", bias_);
}

std::string LayerNorm::text() const {
  TextForm form("layer_norm");
  form.value(text_of(normalized_shape_))
      .argument_unless("eps", options_.eps, 1e-5)
      .argument_unless("elementwise_affine", options_.elementwise_affine, true);
  // Without a weight there is no bias to speak of.
  form.argument_unless("bias", options_.bias || !options_.elementwise_affine, true);
  write_tail(form);
  return form.str();
}

Parameter& LayerNorm::weight() {
  attach();
  return weight_;
}

Parameter& LayerNorm::bias() {
  attach();
  return bias_;
}

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options)
    : NormModule("rms_norm", options.act, options.drop_p),
      normalized_shape_(normalized_shape),
      options_(options) {
  check_norm_options("rms_norm", normalized_shape, options.eps.value_or(0));
  if (options.elementwise_affine) {
    weight_ = Parameter(normalized_shape, ones);
  }
}

Tensor RMSNorm::forward(const Tensor& x, const math::AnyActivation& next,
                        const DropoutOptions& dropout) {
  check_bare();
  return run(x, {next, dropout});
}

Tensor RMSNorm::run(const Tensor& x, const NormTail& tail) {
  attach();
  return rms_norm(x, normalized_shape_, weight_.value(), options_.eps, tail);
}

void RMSNorm::members(Members& members) { members.parameter("weight", weight_); }

std::string RMSNorm::text() const {
  TextForm form("rms_norm");
  form.value(text_of(normalized_shape_));
  if (options_.eps) {
    form.argument("eps", *options_.eps);
  }
  form.argument_unless("elementwise_affine", options_.elementwise_affine, true);
  write_tail(form);
  return form.str();
}

Parameter& RMSNorm::weight() {
  attach();
  return weight_;
}

}  // namespace sinter
