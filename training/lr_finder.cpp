#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <sinter/training/loader.h>
#include <sinter/training/lr_finder.h>
#include <sinter/training/weights_copy.h>

namespace sinter {
namespace {

// All that training changes, put back when it goes.
class Unchanged {
 public:
  Unchanged(Module& model, Optimizer& optimizer)
      : optimizer_(optimizer), weights_(model), lr_(optimizer.lr()), steps_(optimizer.steps()) {
    model.generator();  // so that every part has one
    for (const Tensor& state : optimizer.state()) {
      state_.push_back(state.defined() ? state.clone() : Tensor{});
    }
    detail::for_each_module(model, [this](const std::string&, Module& part) {
      modes_.emplace_back(&part, part.training());
      draws_.emplace_back(part.generator(), *part.generator());  // a part may have its own
    });
  }

  void put_back() {
    optimizer_.clear_gradients();
    weights_.restore();
    optimizer_.set_lr(lr_);
    optimizer_.uncount_steps(optimizer_.steps() - steps_);
    for (std::size_t k = 0; k < state_.size(); ++k) {
      Tensor state = optimizer_.state()[k];
      if (state_[k].defined()) {
        state.copy_from(state_[k]);
      } else if (state.defined()) {
        state.fill(0);  // as it will be made
      }
    }
    for (const auto& [generator, before] : draws_) {
      generator->set_state(before.step(), before.next_call());
    }
    for (const auto& [part, mode] : modes_) {  // parents first
      part->train(mode);
    }
  }

 private:
  Optimizer& optimizer_;
  WeightsCopy weights_;
  double lr_;
  std::int64_t steps_;
  std::vector<std::pair<std::shared_ptr<Generator>, Generator>> draws_;
  std::vector<Tensor> state_;
  std::vector<std::pair<Module*, bool>> modes_;
};

std::optional<double> steepest(const std::vector<LrFinderResult::Point>& points,
                               std::int64_t steps) {
  std::optional<double> lr;
  double least = 0;
  const auto n = static_cast<std::int64_t>(points.size());
  for (std::int64_t i = steps / 10 + 1; i + 2 < n; ++i) {
    const auto at = [&](std::int64_t k) { return points[static_cast<std::size_t>(k)]; };
    const double slope = at(i + 1).loss - at(i - 1).loss;  // rates lie at equal distances
    if (slope < least) {
      least = slope;
      lr = at(i).lr;
    }
  }
  return lr;
}

std::vector<LrFinderResult::Point> range_test(CapturedStep& step, Optimizer& optimizer,
                                              DataLoader& loader, const LrFinderOptions& options) {
  std::vector<LrFinderResult::Point> points;
  const double growth = std::log(options.max_lr / options.min_lr);
  double average = 0, smallest = HUGE_VAL;
  while (true) {
    for (const Batch& batch : loader) {
      const auto i = static_cast<double>(points.size());
      const double lr =
          options.min_lr * std::exp(growth * i / static_cast<double>(options.steps - 1));
      optimizer.set_lr(lr);
      const double loss = step.eager(batch, [](double) {});
      average = options.smoothing * average + (1 - options.smoothing) * loss;
      const double smoothed = average / (1 - std::pow(options.smoothing, i + 1));
      if (!std::isfinite(smoothed)) {
        return points;
      }
      points.push_back({lr, smoothed});
      smallest = std::min(smallest, smoothed);
      const bool diverges = smoothed > 0 && smoothed > options.diverge_threshold * smallest;
      if (diverges || static_cast<std::int64_t>(points.size()) == options.steps) {
        return points;
      }
    }
  }
}

}  // namespace

LrFinderResult find_lr(Module& model, Loss loss, Optimizer& optimizer, const Dataset& data,
                       const LrFinderOptions& options) {
  check(options.min_lr > 0 && std::isfinite(options.max_lr) && options.max_lr > options.min_lr,
        "find_lr: expected 0 < min_lr < max_lr, got ", options.min_lr, " and ", options.max_lr);
  check(options.steps >= 2, "find_lr: steps must be at least 2, got ", options.steps);
  check(options.smoothing >= 0 && options.smoothing < 1,
        "find_lr: smoothing must lie in [0, 1), got ", options.smoothing);
  check(options.diverge_threshold > 1, "find_lr: diverge_threshold must be above 1, got ",
        options.diverge_threshold);
  CapturedStep step(model, std::move(loss), optimizer);
  DataLoader loader(data, {.batch_size = options.batch_size,
                           .seed = options.seed,
                           .device = optimizer.parameters().front().state->device});
  Unchanged before(model, optimizer);
  optimizer.clear_gradients();
  model.train();
  LrFinderResult result;
  try {
    result.points = range_test(step, optimizer, loader, options);
  } catch (...) {
    before.put_back();
    throw;
  }
  before.put_back();
  result.suggestion = steepest(result.points, options.steps);
  return result;
}

}  // namespace sinter
