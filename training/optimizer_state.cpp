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
  constexpr double largest = std::numeric_limits<double>::max();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    auto last = static_cast<std::int64_t>(groups_[g].last);
    visitor.number(sinter::text("group", g, ".last"), last, last, last);  // or it is another one
    visitor.number(sinter::text("group", g, ".lr_scale"), groups_[g].lr_scale, 0, largest);
    visitor.number(sinter::text("group", g, ".weight_decay"), groups_[g].weight_decay, 0, largest);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // Two groups may be of two layers that name their parameters alike.
    const std::string place = groups_.size() > 1 ? sinter::text(i, ".") : "";
    const Shape& shape = parameters_[i].state->shape;
    const std::vector<Tensor> state = state_.rows(i, shape.numel());
    for (std::size_t k = 0; k < state.size(); ++k) {
      visitor.tensor(sinter::text("state", k, ".", place, parameters_[i].name),
                     state[k].reshape(shape));
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
