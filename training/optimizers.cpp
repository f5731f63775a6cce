#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
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

Optimizer::Optimizer(std::string name, Parameters parameters, double lr, int state_count)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      state_(static_cast<std::size_t>(state_count)) {
  check(!parameters_.empty(), name_, ": there are no parameters to optimise");
  std::set<const ParameterState*> seen;
  for (const NamedParameter& parameter : parameters_) {
    check(parameter.state != nullptr && parameter.value().defined(), name_, ": parameter ",
          parameter.name, " has no values; take parameters from model.parameters()");
    check(seen.insert(parameter.state.get()).second, name_, ": parameter ", parameter.name,
          " is given twice");
  }
  set_lr(lr);
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
  if (offsets_.empty()) {
    return false;
  }
  const ParameterState& first = *parameters_.front().state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterState& state = *parameters_[i].state;
    if (!state.flat || state.flat != first.flat || state.offset != first.offset + offsets_[i]) {
      return false;
    }
  }
  const Tensor& values = first.flat->values;
  return std::ranges::all_of(state_, [&values](const Tensor& state) {
    return state.dtype() == values.dtype() && state.device() == values.device();
  });
}

// State takes the layout, type and device that the parameters have now.
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
  lay_out_flat(parameters_);
  std::vector<std::int64_t> offsets;
  std::int64_t elements = 0;
  for (const NamedParameter& parameter : parameters_) {
    offsets.push_back(elements);
    elements += padded_numel(*parameter.state);
  }
  std::vector<Tensor> state;
  for (const Tensor& old : state_) {
    // Only the parameters had moved: what lies right is not copied.
    if (old.defined() && offsets == offsets_ && old.dtype() == first.dtype &&
        old.device() == first.device) {
      state.push_back(old);
      continue;
    }
    const int place = static_cast<int>(2 + state.size());
    state.push_back(flat_zeros(elements, first.dtype, first.device, place));
    // Another type pads differently: each parameter's part moves to its new place.
    for (std::size_t i = 0; old.defined() && i < parameters_.size(); ++i) {
      const std::int64_t n = parameters_[i].state->shape.numel();
      state.back()
          .view_rows(offsets[i], offsets[i] + n)
          .copy_from(old.view_rows(offsets_[i], offsets_[i] + n).to(first.dtype));
    }
  }
  state_ = std::move(state);
  offsets_ = std::move(offsets);
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
  return graph->live(
      {static_cast<std::int64_t>(choices * bytes)}, DType::uint8,
      [this, ahead, bytes, choices, write = std::move(write)](std::span<std::byte> to) {
        const double lr = coming_lrs_.size() >= ahead ? coming_lrs_[ahead - 1] : lr_;
        for (std::uint64_t k = 0; k < choices; ++k) {
          write(steps_ + static_cast<std::int64_t>(ahead - k), lr, to.subspan(k * bytes, bytes));
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
  if (!updates_linears()) {
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
    const std::int64_t n = parameters_[i].state->shape.numel();
    for (const Tensor& whole : state_) {
      state.push_back(whole.view_rows(offsets_[i], offsets_[i] + n));
    }
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
      bias_state.resize(bias_state.size() + state_.size());
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

void Optimizer::step() {
  follow_parameters();
  if (step_deferred()) {
    return;
  }
  // Padding is updated along, and stays zero.
  const std::vector<GradientRun> runs = gradient_runs(parameters_);
  check(!runs.empty(), name_,
        ": no parameter has a gradient; call tape.backward(loss) before step()");
  count_step();
  for (const GradientRun& run : runs) {
    std::vector<Tensor> state;
    for (const Tensor& whole : state_) {
      state.push_back(
          whole.view_rows(offsets_[run.first], offsets_[run.first] + run.values.numel()));
    }
    Tensor values = run.values;
    update(values, run.gradients, state);
  }
  clear_gradients();
}

SGD::SGD(Parameters parameters, const SGDOptions& options)
    : Optimizer("SGD", std::move(parameters), options.lr, options.momentum != 0 ? 1 : 0),
      options_(options) {
  check_range("momentum", options.momentum, 0, HUGE_VAL);
  check_range("weight_decay", options.weight_decay, 0, HUGE_VAL);
  check(std::isfinite(options.dampening), "SGD: dampening must be finite, got ", options.dampening);
  check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
        "SGD: nesterov needs a momentum above 0 and no dampening");
}

ops::SgdArgs SGD::args() {
  return args_of_step<math::SgdConstants<double>>([this](std::int64_t step, double lr) {
    SGDOptions options = options_;
    options.lr = lr;
    return math::sgd_constants<double>(options, step == 1);
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

Adam::Adam(Parameters parameters, const AdamOptions& options)
    : Adam("Adam", std::move(parameters), options) {}

Adam::Adam(std::string name, Parameters parameters, const AdamOptions& options)
    : Optimizer(std::move(name), std::move(parameters), options.lr, options.amsgrad ? 3 : 2),
      options_(options) {
  check_range("beta1", options.beta1, 0, 1);
  check_range("beta2", options.beta2, 0, 1);
  check_range("eps", options.eps, 0, HUGE_VAL);
  check_range("weight_decay", options.weight_decay, 0, HUGE_VAL);
}

bool Adam::updates_linears() const { return !options_.amsgrad; }

ops::AdamArgs Adam::args() {
  return args_of_step<math::AdamConstants<double>>([this](std::int64_t step, double lr) {
    AdamOptions options = options_;
    options.lr = lr;
    const auto t = static_cast<double>(step);
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

AdamW::AdamW(Parameters parameters, const AdamWOptions& options)
    : Adam("AdamW", std::move(parameters),
           {options.lr, options.beta1, options.beta2, options.eps, options.weight_decay, true,
            options.amsgrad}) {}

}  // namespace sinter
