#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <sinter/kernels/ops.h>
#include <sinter/training/clip.h>

namespace sinter {
namespace {

// In as few tensors as possible.
std::vector<Tensor> gradients_of(const char* who, const Parameters& parameters) {
  for (const NamedParameter& parameter : parameters) {
    check(parameter.state != nullptr && parameter.value().defined(), who, ": parameter ",
          parameter.name, " has no values; take parameters from model.parameters()");
  }
  Parameters scattered;
  std::ranges::copy_if(parameters, std::back_inserter(scattered),
                       [](const NamedParameter& p) { return p.state->flat == nullptr; });
  lay_out_flat(scattered);
  std::vector<Tensor> gradients;
  for (GradientRun& run : gradient_runs(parameters)) {
    gradients.push_back(std::move(run.gradients));
  }
  check(!gradients.empty(), who,
        ": no parameter has a gradient; call tape.backward(loss) before it");
  return gradients;
}

}  // namespace

Tensor clip_grad_norm(const Parameters& parameters, double max_norm) {
  Tensor nothing_found;
  return unscale_grad_norm("clip_grad_norm", parameters, {}, nothing_found, max_norm);
}

Tensor unscale_grad_norm(const char* who, const Parameters& parameters, const Tensor& scale,
                         Tensor& found, double max_norm) {
  check(max_norm > 0, who, ": max_norm must be above 0, got ", max_norm);
  std::vector<Tensor> gradients = gradients_of(who, parameters);
  DType dtype = DType::float32;
  for (const Tensor& gradient : gradients) {
    dtype = gradient.dtype() == DType::float64 ? DType::float64 : dtype;
  }
  Tensor norm = Tensor::empty({}, dtype, gradients.front().device());
  ops::clip_norm(gradients, scale, norm, found, max_norm);
  return norm;
}

void clip_grad_value(const Parameters& parameters, double clip_value) {
  check(clip_value > 0, "clip_grad_value: clip_value must be above 0, got ", clip_value);
  std::vector<Tensor> gradients = gradients_of("clip_grad_value", parameters);
  ops::clip_value(gradients, clip_value);
}

}  // namespace sinter
