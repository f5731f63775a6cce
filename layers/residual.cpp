#include <sinter/autograd/functions.h>
#include <sinter/layers/residual.h>

namespace sinter {

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = body_(x);
  check(y.shape() == x.shape(), text(), ": the layers inside make ", y.shape(), " of ", x.shape(),
        "; a residual block adds the two, so they must have one shape");
  return x + y;
}

void Residual::members(Members& members) { members.child("body", body_); }

std::string Residual::text() const { return "residual(" + body_.text() + ")"; }

}  // namespace sinter
