#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <sinter/kernels/ops.h>
#include <sinter/layers/text_form.h>
#include <sinter/runtime/graph.h>
#include <sinter/runtime/log.h>
#include <sinter/training/ema.h>

namespace sinter {
namespace {

// SGD's step with these gives average += share * (weights - average), where the weights take the
// place of gradients.
math::SgdConstants<double> constants(double share) { return {-share, 0, 1, -1, false}; }

}  // namespace

EMA::EMA(Module& model, const EMAOptions& options)
    : model_(model), options_(options), parameters_(model.parameters()) {
  check(options.decay >= 0 && options.decay < 1, "EMA: decay must lie in [0, 1), got ",
        options.decay);
  check(!parameters_.empty(), "EMA: the model has no parameters");
  follow();
}

double EMA::share(std::int64_t n) const {
  const auto count = static_cast<double>(n);
  const double decay =
      options_.warm_up ? std::min(options_.decay, (1 + count) / (10 + count)) : options_.decay;
  return n == 0 ? 1 : 1 - decay;
}

void EMA::follow() {
  const ParameterState& first = *parameters_.front().state;
  Parameters scattered;
  for (const NamedParameter& parameter : parameters_) {
    check(parameter.state->dtype == first.dtype && parameter.state->device == first.device,
          "EMA: parameter ", parameter.name, " is ", parameter.state->dtype, " on ",
          parameter.state->device, " and ", parameters_.front().name, " is ", first.dtype, " on ",
          first.device, "; only parameters of one type and device are averaged");
    if (parameter.state->flat == nullptr) {
      scattered.push_back(parameter);
    }
  }
  lay_out_flat(scattered);
  if (!state_.follows(parameters_)) {
    state_.follow(parameters_);
  }
}

void EMA::update() {
  follow();
  Tensor live;
  if (Graph* const graph = Graph::recording()) {
    bool is_new = false;
    const auto ahead = static_cast<std::int64_t>(
        graph->advanced(this, static_cast<std::uint64_t>(updates_), is_new));
    if (is_new) {
      graph->when_recorded([this, graph, before = updates_] {
        const std::int64_t updates = std::exchange(updates_, before) - before;
        graph->when_replayed([this, updates] { updates_ += updates; });
      });
    }
    using Narrowed = decltype(math::narrowed(constants(0)));
    live = graph->live({static_cast<std::int64_t>(sizeof(Narrowed))}, DType::uint8,
                       [this, ahead](std::span<std::byte> to) {
                         const Narrowed narrow = math::narrowed(constants(share(updates_ + ahead)));
                         std::memcpy(to.data(), &narrow, sizeof narrow);
                       });
  }
  Tensor no_momentum;
  for (const GradientRun& run : value_runs(parameters_)) {
    Tensor average = std::move(state_.rows(run.first, run.values.numel()).front());
    Tensor weights = run.values;
    if (weights.dtype() != average.dtype()) {
      weights = Tensor::empty(weights.shape(), average.dtype(), weights.device());
      ops::cast(run.values, weights);
    }
    ops::sgd_update(average, weights, no_momentum, {constants(share(updates_)), live});
  }
  ++updates_;
}

void EMA::check_updated() const {
  check(updates_ > 0, "EMA: there are no averages before the first update()");
}

EMA::Applied::Applied(EMA& ema) : weights_(ema.model_) { ema.copy_to(ema.model_); }

EMA::Applied::~Applied() {
  try {
    weights_.restore();
  } catch (const std::exception& error) {
    log::warn(sinter::text("EMA: the model keeps its averages for weights: ", error.what()));
  }
}

void EMA::copy_to(Module& model) {
  check_updated();
  const Buffers from = averages();
  const Parameters to = model.parameters();
  check(from.size() == to.size(), "EMA::copy_to: the model has ", to.size(), " parameters, but ",
        from.size(), " are averaged");
  for (std::size_t i = 0; i < to.size(); ++i) {
    check(to[i].name == from[i].name && to[i].state->shape == from[i].value.shape(),
          "EMA::copy_to: the model has ", to[i].name, " ", to[i].state->shape,
          " where the averaged one has ", from[i].name, " ", from[i].value.shape());
  }
  const Buffers own = model_.buffers();
  Buffers others = model.buffers();
  check(own.size() == others.size(), "EMA::copy_to: the model has ", others.size(),
        " buffers, and the averaged one ", own.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    Tensor value = to[i].value().detach();
    value.copy_from(from[i].value.to(value.dtype()));
  }
  for (std::size_t i = 0; &model != &model_ && i < own.size(); ++i) {
    others[i].value.copy_from(own[i].value.to(others[i].value.dtype()));
  }
}

Buffers EMA::averages() {
  follow();
  Buffers out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Shape& shape = parameters_[i].state->shape;
    out.push_back({parameters_[i].name, state_.rows(i, shape.numel()).front().reshape(shape)});
  }
  return out;
}

void EMA::visit_state(StateVisitor& visitor) {
  visitor.number("updates", updates_, 0);
  for (const NamedBuffer& average : averages()) {
    visitor.tensor(average.name, average.value);
  }
}

std::string EMA::text() const {
  return TextForm("EMA")
      .argument("decay", options_.decay)
      .argument("warm_up", options_.warm_up)
      .str();
}

}  // namespace sinter
