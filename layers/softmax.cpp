#include <sinter/layers/activations.h>
#include <sinter/layers/softmax.h>
#include <sinter/layers/text_form.h>

namespace sinter {

Softmax::Softmax(const SoftmaxOptions& options) : drop_p_(options.drop_p) {
  check_probability("softmax(drop_p)", drop_p_);
}

Tensor Softmax::forward(const Tensor& x) { return softmax(x, -1, dropout_of(*this, drop_p_)); }

Tensor Softmax::forward(const Tensor& x, const DropoutOptions& dropout) {
  check(drop_p_ == 0, text(), ": has dropout of its own");
  return softmax(x, -1, dropout);
}

std::string Softmax::text() const {
  return TextForm("softmax").argument_unless("drop_p", drop_p_, 0.0).str();
}

Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x); }
std::string LogSoftmax::text() const { return "log_softmax"; }

Tensor Softmin::forward(const Tensor& x) { return softmin(x); }
std::string Softmin::text() const { return "softmin"; }

}  // namespace sinter
