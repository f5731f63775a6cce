#include <sinter/autograd/functions.h>
#include <sinter/layers/flatten.h>
#include <sinter/layers/text_form.h>

namespace sinter {

Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_dim_); }

std::string Flatten::text() const {
  return TextForm("flatten").argument_unless("start_dim", start_dim_, 1).str();
}

}  // namespace sinter
