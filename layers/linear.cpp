#include <cmath>

#include <sinter/autograd/autocast.h>
#include <sinter/layers/linear.h>
#include <sinter/layers/text_form.h>

namespace sinter {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options)
    : in_features_(in_features), out_features_(out_features) {
  check(in_features >= 1 && out_features >= 1, "linear(", in_features, ", ", out_features,
        "): in_features and out_features must be at least 1");
  const double bound = 1.0 / std::sqrt(static_cast<double>(in_features));
  weight_ = Parameter({out_features, in_features}, {-bound, bound});
  if (options.bias) {
    bias_ = Parameter({out_features}, {-bound, bound});
  }
}

Tensor Linear::forward(const Tensor& x) {
  attach();
  check_input(x);
  return linear(x, weight_.value(), bias_.value());
}

Tensor Linear::forward(const Tensor& x, const math::AnyActivation& act,
                       const DropoutOptions& dropout) {
  attach();
  check_input(x);
  return linear_activation(x, weight_.value(), bias_.value(), act, dropout);
}

void Linear::check_input(const Tensor& x) const {
  const bool fits = x.rank() >= 1 && x.shape().last() == in_features_;
  const bool unflattened = !fits && x.rank() > 2 && x.numel() == x.size(0) * in_features_;
  if (fits && x.device() == weight_.value().device() && x.dtype() == weight_.value().dtype()) {
    return;  // the sentences below cost more than a small product
  }
  check(fits, text(), ": expected an input of [..., ", in_features_, "], got ", x.shape(),
        unflattened ? "; put a Flatten before it" : "");
  const Tensor& weight = weight_.value();
  check(x.device() == weight.device(), text(), ": the input is on ", x.device(),
        " and the layer on ", weight.device(), "; move one with to(device)");
  check(fit_one_product(x, weight), text(), ": the input is ", x.dtype(), " and the layer ",
        weight.dtype(), "; convert one with to(dtype)");
}

void Linear::members(Members& members) {
  members.parameter("weight", weight_);
  members.parameter("bias", bias_);
}

std::string Linear::text() const {
  return TextForm("linear")
      .value(std::to_string(in_features_))
      .value(std::to_string(out_features_))
      .argument_unless("bias", bias_.present(), true)
      .str();
}

Parameter& Linear::weight() {
  attach();
  return weight_;
}

Parameter& Linear::bias() {
  attach();
  return bias_;
}

}  // namespace sinter
