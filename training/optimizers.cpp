#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include <sinter/autograd/deferred.h>
#include <sinter/kernels/ops.h>
#include <sinter/runtime/graph.h>
#include <sinter/training/optimizers.h>

namespace sinter {
namespace {

void check_lr(const std::string& who, double lr) {
  check(std::isfinite(lr) && lr >= 0, who, ": lr must be finite and at least 0, got ", lr);
}

}  // namespace

void Optimizer::check_range(const char* what, double value, double low, double high) const {
  check(value >= low && value < high, name_, ": ", what, " must lie in [", low, ", ", high,
        "), got ", value);
}

Optimizer::Optimizer(std::string name, ParameterGroups groups, double lr, int state_count,
                     std::optional<double> weight_decay)
    : name_(std::move(name)),
      has_weight_decay_(weight_decay.has_value()),
      lr_(lr),
      state_(static_cast<std::size_t>(state_count)) {
  check_lr(name_, lr);
  std::map<const ParameterState*, std::size_t> seen;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& [parameters, own_lr, own_decay] = groups[g];
    check(!parameters.empty() || groups.size() == 1, name_, ": group ", g, " has no parameters");
    for (const NamedParameter& parameter : parameters) {
      check(parameter.state != nullptr && parameter.value().defined(), name_, ": parameter ",
            parameter.name, " has no values; take parameters from model.parameters()");
      const auto [found, is_new] = seen.emplace(parameter.state.get(), g);
      check(is_new, name_, ": parameter ", parameter.name, " is given twice",
            groups.size() > 1 ? sinter::text(", in groups ", found->second, " and ", g) : "");
      parameters_.push_back(parameter);
    }
    groups_.push_back({parameters_.size(), 1, 0});
    if (weight_decay) {
      set_weight_decay(g, *weight_decay);
    }
    if (own_decay) {
      set_weight_decay(g, *own_decay);
    }
    if (own_lr) {
      check_lr(name_, *own_lr);
      check(lr > 0, name_, ": group ", g, " has a learning rate of ", *own_lr,
            ", which is kept as a ratio to the optimizer's, but that is 0");
      set_lr_scale(g, *own_lr / lr);
    }
  }
  check(!parameters_.empty(), name_, ": there are no parameters to optimise");
}

const Optimizer::Group& Optimizer::group_at(std::size_t group) const {
  check(group < groups_.size(), name_, ": there is no group ", group, ", but ", groups_.size(),
        ", counted from 0");
  return groups_[group];
}

double Optimizer::lr(std::size_t group) const { return lr_ * group_at(group).lr_scale; }

double Optimizer::lr_scale(std::size_t group) const { return group_at(group).lr_scale; }

double Optimizer::weight_decay(std::size_t group) const { return group_at(group).weight_decay; }

void Optimizer::set_lr_scale(std::size_t group, double scale) {
  group_at(group);
  check_range("lr_scale", scale, 0, HUGE_VAL);
  groups_[group].lr_scale = scale;
}

void Optimizer::set_weight_decay(std::size_t group, double weight_decay) {
  group_at(group);
  check(has_weight_decay_, name_, ": it knows no weight decay, and group ", group,
        " was given one of ", weight_decay);
  check_range("weight_decay", weight_decay, 0, HUGE_VAL);
  groups_[group].weight_decay = weight_decay;
}

void Optimizer::set_lr(double lr) {
  check_lr(name_, lr);
  lr_ = lr;
}

void Optimizer::clear_gradients() {
  for (const NamedParameter& parameter : parameters_) {
    if (const auto& leaf = parameter.value().leaf()) {
      leaf->drop();
    }
  }
}

// Whether everything lies as follow_parameters() left it, so that a step need not look closer.
bool Optimizer::is_laid_out() const {
  if (!state_.follows(parameters_)) {
    return false;
  }
  const ParameterState& first = *parameters_.front().state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterState& state = *parameters_[i].state;
    const bool lies_right =
        groups_.size() > 1
            ? state.dtype == first.dtype && state.device == first.device
            : state.flat == first.flat && state.offset == first.offset + state_.offset(i);
    if (!state.flat || !lies_right) {
      return false;
    }
  }
  return true;
}

// State takes the type and device that the parameters have now.
void Optimizer::follow_parameters() {
  if (is_laid_out()) {
    return;
  }
  const ParameterState& first = *parameters_.front().state;
  for (const NamedParameter& parameter : parameters_) {
    check(parameter.state->dtype == first.dtype && parameter.state->device == first.device, name_,
          ": parameter ", parameter.name, " is ", parameter.state->dtype, " on ",
          parameter.state->device, " and ", parameters_.front().name, " is ", first.dtype, " on ",
          first.device, "; give each kind an optimizer of its own");
  }
  // Groups may be any shuffle of the model, whose own layout is the better one: with both laying
  // out anew, no two steps would find the parameters in one place.
  Parameters scattered;
  std::ranges::copy_if(parameters_, std::back_inserter(scattered), [this](const auto& p) {
    return groups_.size() == 1 || p.state->flat == nullptr;
  });
  lay_out_flat(scattered);
  state_.follow(parameters_);
}

void Optimizer::set_coming_lrs(std::vector<double> lrs) {
  for (const double lr : lrs) {
    check_lr(name_, lr);
  }
  coming_lrs_ = std::move(lrs);
}

void Optimizer::count_step() {
  bool is_new = false;
  Graph* const graph = Graph::recording();
  if (graph != nullptr) {
    graph->advanced(this, static_cast<std::uint64_t>(steps_), is_new);
  }
  if (is_new) {
    graph->when_recorded([this, graph, before = steps_] {
      const std::int64_t steps = std::exchange(steps_, before) - before;
      graph->when_replayed([this, steps] {
        steps_ += steps;
        if (!coming_lrs_.empty()) {
          lr_ = coming_lrs_.back();
          coming_lrs_.clear();
        }
      });
    });
  }
  ++steps_;
}

Tensor Optimizer::live_constants(std::size_t bytes, WriteConstants write) {
  Graph* const graph = Graph::recording();
  if (graph == nullptr) {
    return {};
  }
  bool is_new = false;
  const std::uint64_t ahead = graph->advanced(this, static_cast<std::uint64_t>(steps_), is_new);
  // Of the steps ahead, as many as there are before this one may turn out to have been left out.
  const std::uint64_t choices = skip_.found.defined() ? ahead : 1;
  return graph->live({static_cast<std::int64_t>(choices * bytes)}, DType::uint8,
                     [this, ahead, bytes, choices, group = group_,
                      write = std::move(write)](std::span<std::byte> to) {
                       const double lr = coming_lrs_.size() >= ahead ? coming_lrs_[ahead - 1] : lr_;
                       for (std::uint64_t k = 0; k < choices; ++k) {
                         write(options_at(steps_ + static_cast<std::int64_t>(ahead - k), lr, group),
                               to.subspan(k * bytes, bytes));
                       }
                     });
}

void Optimizer::step_unless(const ops::SkipArgs& skip) {
  skip_ = skip;
  try {
    step();
  } catch (...) {
    skip_ = {};
    throw;
  }
  skip_ = {};
}

void Optimizer::skip_step() {
  follow_parameters();
  clear_gradients();
}

void Optimizer::uncount_steps(std::int64_t count) { steps_ -= count; }

std::size_t Optimizer::index_of(const std::shared_ptr<Leaf>& leaf) const {
  const auto found = std::ranges::find_if(
      parameters_, [&](const NamedParameter& p) { return p.value().leaf() == leaf; });
  return static_cast<std::size_t>(found - parameters_.begin());
}

bool Optimizer::step_deferred() {
  if (!updates_linears() || groups_.size() > 1) {  // one kernel has one set of constants
    return false;
  }
  // One group, and all of it for us: then nobody misses the gradients.
  std::shared_ptr<DeferredGradients> group;
  std::size_t fresh = 0;
  for (const NamedParameter& parameter : parameters_) {
    if (!has_gradient(parameter)) {
      continue;
    }
    const auto of = std::dynamic_pointer_cast<DeferredGradients>(parameter.value().leaf()->pending);
    if (of == nullptr || (group != nullptr && of != group)) {
      return false;
    }
    group = of;
    ++fresh;
  }
  if (group == nullptr) {
    return false;
  }
  std::vector<Tensor> dy, x, weights, biases, weight_state, bias_state;
  std::size_t covered = 0;
  const auto take = [&](const std::shared_ptr<Leaf>& leaf, bool accumulate,
                        std::vector<Tensor>& values, std::vector<Tensor>& state) {
    const std::size_t i = index_of(leaf);
    if (accumulate || i == parameters_.size() || leaf->pending != group) {
      return false;
    }
    values.push_back(parameters_[i].value().detach());
    std::ranges::move(state_.rows(i, parameters_[i].state->shape.numel()),
                      std::back_inserter(state));
    ++covered;
    return true;
  };
  for (const DeferredGradients::Entry& entry : group->entries()) {
    const auto weight = entry.weight.lock(), bias = entry.bias.lock();
    if (weight == nullptr || !take(weight, entry.flags.accumulate_weight, weights, weight_state)) {
      return false;
    }
    if (bias == nullptr) {
      biases.emplace_back();
      bias_state.resize(bias_state.size() + state_.tensors().size());
    } else if (!take(bias, entry.flags.accumulate_bias, biases, bias_state)) {
      return false;
    }
    dy.push_back(DeferredGradients::gradient_of(entry));
    x.push_back(DeferredGradients::input_of(entry));
  }
  if (covered != fresh) {
    return false;
  }
  count_step();
  try {
    update_linears(dy, x, weights, biases, weight_state, bias_state);
  } catch (...) {
    --steps_;
    throw;
  }
  clear_gradients();
  return true;
}

void Optimizer::update_linears(const std::vector<Tensor>&, const std::vector<Tensor>&,
                               std::vector<Tensor>&, std::vector<Tensor>&, std::vector<Tensor>&,
                               std::vector<Tensor>&) {
  throw Error(sinter::text(
      name_, ": it says that it updates Linears without their gradients, and does not"));
}

// Padding is updated along, and stays zero.
void Optimizer::update_run(const GradientRun& run) {
  std::int64_t begin = 0;
  for (std::size_t first = run.first; first < run.last;) {
    while (groups_[group_].last <= first) {
      ++group_;
    }
    const std::size_t last = std::min(run.last, groups_[group_].last);
    const std::int64_t end =
        last == run.last ? run.values.numel() : state_.offset(last) - state_.offset(run.first);
    Tensor values = run.values.view_rows(begin, end);
    std::vector<Tensor> state = state_.rows(first, end - begin);
    update(values, run.gradients.view_rows(begin, end), state);
    first = last;
    begin = end;
  }
}

void Optimizer::step() {
  follow_parameters();
  if (step_deferred()) {
    return;
  }
  const std::vector<GradientRun> runs = gradient_runs(parameters_);
  check(!runs.empty(), name_,
        ": no parameter has a gradient; call tape.backward(loss) before step()");
  count_step();
  group_ = 0;
  for (const GradientRun& run : runs) {
    update_run(run);
  }
  clear_gradients();
}

SGD::SGD(ParameterGroups parameters, const SGDOptions& options)
    : Optimizer("SGD", std::move(parameters), options.lr, options.momentum != 0 ? 1 : 0,
                options.weight_decay),
      options_(options) {
  check_range("momentum", options.momentum, 0, HUGE_VAL);
  check(std::isfinite(options.dampening), "SGD: dampening must be finite, got ", options.dampening);
  check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
        "SGD: nesterov needs a momentum above 0 and no dampening");
}

ops::SgdArgs SGD::args() {
  return args_of_step<math::SgdConstants<double>>([this](const StepOptions& now) {
    SGDOptions options = options_;
    options.lr = now.lr;
    options.weight_decay = now.weight_decay;
    return math::sgd_constants<double>(options, now.step == 1);
  });
}

void SGD::update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) {
  Tensor none;
  ops::sgd_update(values, gradients, state.empty() ? none : state[0], args());
}

void SGD::update_linears(const std::vector<Tensor>& dy, const std::vector<Tensor>& x,
                         std::vector<Tensor>& weights, std::vector<Tensor>& biases,
                         std::vector<Tensor>& weight_state, std::vector<Tensor>& bias_state) {
  ops::linears_sgd_update(dy, x, weights, biases, weight_state, bias_state, args());
}

Adam::Adam(ParameterGroups parameters, const AdamOptions& options)
    : Adam("Adam", std::move(parameters), options) {}

Adam::Adam(std::string name, ParameterGroups parameters, const AdamOptions& options)
    : Optimizer(std::move(name), std::move(parameters), options.lr, options.amsgrad ? 3 : 2,
                options.weight_decay),
      options_(options) {
  check_range("beta1", options.beta1, 0, 1);
  check_range("beta2", options.beta2, 0, 1);
  check_range("eps", options.eps, 0, HUGE_VAL);
}

bool Adam::updates_linears() const { return !options_.amsgrad; }

ops::AdamArgs Adam::args() {
  return args_of_step<math::AdamConstants<double>>([this](const StepOptions& now) {
    AdamOptions options = options_;
    options.lr = now.lr;
    options.weight_decay = now.weight_decay;
    const auto t = static_cast<double>(now.step);
    return math::adam_constants<double>(options, 1 - std::pow(options.beta1, t),
                                        1 - std::pow(options.beta2, t));
  });
}

void Adam::update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) {
  const ops::AdamArgs of_step = args();
  if (options_.amsgrad) {
    // An amsgrad rule is these constants and nothing else, and so are its live ones.
    ops::rule_update(values, gradients, state,
                     {math::AmsgradRule<double>{of_step.constants}, of_step.live, of_step.skip});
  } else {
    ops::adam_update(values, gradients, state[0], state[1], of_step);
  }
}

void Adam::update_linears(const std::vector<Tensor>& dy, const std::vector<Tensor>& x,
                          std::vector<Tensor>& weights, std::vector<Tensor>& biases,
                          std::vector<Tensor>& weight_state, std::vector<Tensor>& bias_state) {
  ops::linears_adam_update(dy, x, weights, biases, weight_state, bias_state, args());
}

AdamW::AdamW(ParameterGroups parameters, const AdamWOptions& options)
    : Adam("AdamW", std::move(parameters),
           {options.lr, options.beta1, options.beta2, options.eps, options.weight_decay, true,
            options.amsgrad}) {}

}  // namespace sinter
