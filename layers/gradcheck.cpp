#include <vector>

#include <sinter/layers/gradcheck.h>

namespace sinter::detail {

GradCheckReport check_model(Module& model, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& loss_of_output,
                            const GradCheckOptions& options) {
  model.to(Device::cpu());
  model.to(DType::float64);
  const Tensor input = x.detach().to(Device::cpu()).to(DType::float64);
  Generator& generator = *model.generator();
  const std::uint32_t step = generator.step();
  const std::uint32_t call = generator.next_call();
  const Parameters parameters = model.parameters();
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : parameters) {
    values.push_back(parameter.value().detach().clone());
  }
  const auto f = [&](std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].state->value = inputs[i];
    }
    generator.set_state(step, call);  // the same masks every time
    return loss_of_output(model(input));
  };
  return check_gradient(f, std::move(values), options);
}

}  // namespace sinter::detail
