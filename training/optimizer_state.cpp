// What optimizers tell a checkpoint: how they are set, and what they keep.
#include <limits>

#include <sinter/layers/text_form.h>
#include <sinter/training/optimizers.h>
#include <sinter/training/rule_optimizers.h>

namespace sinter {

void Optimizer::visit_state(StateVisitor& visitor) {
  follow_parameters();  // before the first step all of it is zeros
  visitor.number("lr", lr_, 0, std::numeric_limits<double>::max());
  visitor.number("steps", steps_, 0);
  for (std::size_t k = 0; k < state_.size(); ++k) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Shape& shape = parameters_[i].state->shape;
      visitor.tensor(sinter::text("state", k, ".", parameters_[i].name),
                     state_[k].view_rows(offsets_[i], offsets_[i] + shape.numel()).reshape(shape));
    }
  }
}

std::string SGD::text() const {
  return TextForm(name())
      .argument("momentum", options_.momentum)
      .argument("dampening", options_.dampening)
      .argument("weight_decay", options_.weight_decay)
      .argument("nesterov", options_.nesterov)
      .str();
}

std::string Adam::text() const {
  return TextForm(name())
      .argument("beta1", options_.beta1)
      .argument("beta2", options_.beta2)
      .argument("eps", options_.eps)
      .argument("weight_decay", options_.weight_decay)
      .argument("decoupled", options_.decoupled)
      .argument("amsgrad", options_.amsgrad)
      .str();
}

std::string RMSprop::text() const {
  return TextForm(name())
      .argument("alpha", options_.alpha)
      .argument("eps", options_.eps)
      .argument("weight_decay", options_.weight_decay)
      .argument("momentum", options_.momentum)
      .argument("centered", options_.centered)
      .str();
}

std::string Adagrad::text() const {
  return TextForm(name())
      .argument("lr_decay", options_.lr_decay)
      .argument("weight_decay", options_.weight_decay)
      .argument("initial_accumulator_value", options_.initial_accumulator_value)
      .argument("eps", options_.eps)
      .str();
}

std::string NAdam::text() const {
  return TextForm(name())
      .argument("beta1", options_.beta1)
      .argument("beta2", options_.beta2)
      .argument("eps", options_.eps)
      .argument("weight_decay", options_.weight_decay)
      .argument("momentum_decay", options_.momentum_decay)
      .argument("decoupled", options_.decoupled)
      .str();
}

std::string RAdam::text() const {
  return TextForm(name())
      .argument("beta1", options_.beta1)
      .argument("beta2", options_.beta2)
      .argument("eps", options_.eps)
      .argument("weight_decay", options_.weight_decay)
      .argument("decoupled", options_.decoupled)
      .str();
}

}  // namespace sinter
