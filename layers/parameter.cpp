#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include <sinter/kernels/math/uniform.h>
#include <sinter/layers/parameter.h>

namespace sinter {

void ParameterState::initialise(Generator& generator) {
  const std::uint32_t ordinal = generator.take_parameter();
  if (value.defined()) {
    return;
  }
  Tensor drawn = Tensor::full(shape, initial.low, DType::float64);
  const auto uniform = [&](std::int64_t i) {
    return math::uniform_double(generator.seed(), math::Domain::initial_weights, ordinal,
                                static_cast<std::uint64_t>(i));
  };
  if (initial.deviation > 0) {
    // Box and Muller, "A note on the generation of random normal deviates", 1958.
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      const double radius = std::sqrt(-2 * std::log1p(-uniform(2 * i)));
      drawn.data<double>()[i] =
          initial.deviation * radius * std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
    }
  } else if (initial.low != initial.high) {
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      drawn.data<double>()[i] = initial.low + (initial.high - initial.low) * uniform(i);
    }
  }
  if (initial.zero_row >= 0) {
    drawn.view_rows(initial.zero_row, initial.zero_row + 1).fill(0);
  }
  rebind(drawn.to(dtype).to(device));
}

void ParameterState::rebind(Tensor tensor) {
  value = std::move(tensor);
  if (!trainable) {
    return;
  }
  if (!leaf_) {
    leaf_ = std::make_shared<Leaf>();
    leaf_->shape = shape;
  }
  leaf_->dtype = dtype;
  leaf_->device = device;
  value.set_leaf(leaf_);
}

Parameter::Parameter(const Shape& shape, Initializer initial)
    : state_(std::make_shared<ParameterState>()) {
  state_->shape = shape;
  state_->initial = initial;
}

Parameter::Parameter(const Parameter& other) {
  if (!other.state_) {
    return;
  }
  const ParameterState& from = *other.state_;
  state_ = std::make_shared<ParameterState>();
  state_->shape = from.shape;
  state_->dtype = from.dtype;
  state_->device = from.device;
  state_->initial = from.initial;
  state_->trainable = from.trainable;
  if (from.value.defined()) {
    state_->rebind(from.value.detach().clone());
  }
}

Parameter& Parameter::operator=(const Parameter& other) {
  *this = Parameter(other);
  return *this;
}

const Tensor& Parameter::value() const {
  static const Tensor absent;
  if (!state_) {
    return absent;
  }
  check(state_->value.defined(), "a parameter of shape ", state_->shape,
        " is not drawn yet; call the module as module(x), not module.forward(x), and name the "
        "parameter in members()");
  return state_->value;
}

void ParameterState::set_trainable(bool on) {
  if (on == trainable) {
    return;
  }
  trainable = on;
  if (!on) {
    value.set_leaf(nullptr);
  } else if (value.defined()) {
    rebind(value);
    // While it was frozen it had no part in layouts and moves, and its old gradient is stale.
    Leaf& leaf = *value.leaf();
    leaf.drop();
    leaf.grad = flat ? flat->gradients.slice(offset, shape) : Tensor{};
  }
}

void Parameter::set_trainable(bool trainable) {
  check(present(), "Parameter::set_trainable: the parameter is absent");
  state_->set_trainable(trainable);
}

std::int64_t numel(const Parameters& parameters) {
  std::int64_t total = 0;
  for (const NamedParameter& parameter : parameters) {
    total += parameter.state->shape.numel();
  }
  return total;
}

bool has_gradient(const NamedParameter& parameter) {
  const auto& leaf = parameter.value().leaf();
  return leaf != nullptr && leaf->fresh;
}

namespace {

template <class Takes>
std::vector<GradientRun> runs_of(const Parameters& parameters, Takes takes) {
  std::vector<GradientRun> runs;
  for (std::size_t i = 0; i < parameters.size();) {
    if (!takes(parameters[i])) {
      ++i;
      continue;
    }
    const ParameterState& first = *parameters[i].state;
    std::int64_t length = 0;
    std::size_t last = i;
    for (; last < parameters.size() && takes(parameters[last]); ++last) {
      const ParameterState& state = *parameters[last].state;
      if (state.flat != first.flat || state.offset != first.offset + length) {
        break;
      }
      length += padded_numel(state);
    }
    runs.push_back({i, last, first.flat->values.view_rows(first.offset, first.offset + length),
                    first.flat->gradients.view_rows(first.offset, first.offset + length)});
    i = last;
  }
  return runs;
}

}  // namespace

std::vector<GradientRun> gradient_runs(const Parameters& parameters) {
  for (const NamedParameter& parameter : parameters) {
    if (has_gradient(parameter)) {
      parameter.value().leaf()->settle();
    }
  }
  return runs_of(parameters, has_gradient);
}

std::vector<GradientRun> value_runs(const Parameters& parameters) {
  return runs_of(parameters, [](const NamedParameter&) { return true; });
}

std::int64_t padded_numel(const ParameterState& parameter) {
  const auto per_boundary = static_cast<std::int64_t>(256 / size_of(parameter.dtype));
  return (parameter.shape.numel() + per_boundary - 1) & -per_boundary;  // a power of two
}

// Large blocks from the system begin at the same place in a page. A loop that changes several of
// them in step would wait for stores to addresses that only look like those of its loads, and take
// a fifth longer.
Tensor flat_zeros(std::int64_t elements, DType dtype, Device device, int place) {
  const auto lead = place * static_cast<std::int64_t>(1024 / size_of(dtype));
  return Tensor::zeros({lead + elements}, dtype, device).view_rows(lead, lead + elements);
}

namespace {

struct Group {
  std::vector<ParameterState*> members;
  std::int64_t elements = 0;
};

// In the order of the model, one group for each type and device.
std::vector<Group> group(const Parameters& parameters) {
  std::map<std::tuple<DType, DeviceType, int>, Group> groups;
  for (const NamedParameter& parameter : parameters) {
    ParameterState& state = *parameter.state;
    Group& group = groups[{state.dtype, state.device.type, state.device.index}];
    group.members.push_back(&state);
    group.elements += padded_numel(state);
  }
  std::vector<Group> out;
  for (auto& [key, group] : groups) {
    out.push_back(std::move(group));
  }
  return out;
}

bool is_flat(const Group& group) {
  const ParameterState& first = *group.members.front();
  std::int64_t offset = first.offset;
  for (const ParameterState* state : group.members) {
    if (!state->flat || state->flat != first.flat || state->offset != offset) {
      return false;
    }
    offset += padded_numel(*state);
  }
  return true;
}

void lay_out(const Group& group) {
  const ParameterState& first = *group.members.front();
  const auto flat = std::make_shared<FlatBuffer>();
  // Zeros, since updates run over the padding too.
  flat->values = flat_zeros(group.elements, first.dtype, first.device, 0);
  flat->gradients = flat_zeros(group.elements, first.dtype, first.device, 1);
  std::int64_t offset = 0;
  for (ParameterState* state : group.members) {
    Tensor value = flat->values.slice(offset, state->shape);
    value.copy_from(state->value);
    const Tensor old_gradient = state->value.grad();
    state->rebind(std::move(value));
    if (const auto& leaf = state->value.leaf()) {
      leaf->grad = flat->gradients.slice(offset, state->shape);
      if (old_gradient.defined()) {
        leaf->grad.copy_from(old_gradient);
      }
    }
    state->flat = flat;
    state->offset = offset;
    offset += padded_numel(*state);
  }
}

}  // namespace

void lay_out_flat(const Parameters& parameters) {
  for (const Group& same : group(parameters)) {
    if (!is_flat(same)) {
      lay_out(same);
    }
  }
}

void move_parameters(const Parameters& parameters, Device device, DType dtype) {
  for (const NamedParameter& parameter : parameters) {
    ParameterState& state = *parameter.state;
    if (state.device == device && state.dtype == dtype) {
      continue;
    }
    // Made first: without memory for it, nothing has changed.
    Tensor moved = state.value.defined() ? state.value.detach().to(dtype).to(device) : Tensor{};
    state.device = device;
    state.dtype = dtype;
    if (moved.defined()) {
      state.value.clear_grad();
      state.rebind(std::move(moved));
      if (const auto& leaf = state.value.leaf()) {
        leaf->grad = {};
      }
      state.flat = nullptr;
    }
  }
}

}  // namespace sinter
