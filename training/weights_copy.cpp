#include <sinter/training/weights_copy.h>

namespace sinter {

WeightsCopy::WeightsCopy(Module& model) : model_(model) {
  for (const NamedParameter& parameter : model.parameters()) {
    parameters_.push_back(parameter.value().detach().clone());
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    buffers_.push_back(buffer.value.clone());
  }
}

void WeightsCopy::restore() const {
  const Parameters parameters = model_.parameters();
  Buffers buffers = model_.buffers();
  check(parameters.size() == parameters_.size() && buffers.size() == buffers_.size(),
        "the model has ", parameters.size(), " parameters and ", buffers.size(),
        " buffers, and had ", parameters_.size(), " and ", buffers_.size(),
        " when its weights were copied");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor value = parameters[i].value().detach();
    value.copy_from(parameters_[i].to(value.dtype()));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i].value.copy_from(buffers_[i].to(buffers[i].value.dtype()));
  }
}

void WeightsCopy::visit(StateVisitor& visitor) const {
  const Parameters parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    visitor.tensor("copy." + parameters[i].name, parameters_[i]);
  }
  const Buffers buffers = model_.buffers();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    visitor.tensor("copy." + buffers[i].name, buffers_[i]);
  }
}

}  // namespace sinter
