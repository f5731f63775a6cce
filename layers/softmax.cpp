#include <sinter/autograd/functions.h>
#include <sinter/layers/softmax.h>

namespace sinter {

Tensor Softmax::forward(const Tensor& x) { return softmax(x); }
std::string Softmax::text() const { return "softmax"; }

Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x); }
std::string LogSoftmax::text() const { return "log_softmax"; }

Tensor Softmin::forward(const Tensor& x) { return softmin(x); }
std::string Softmin::text() const { return "softmin"; }

}  // namespace sinter
