#include "training.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "../median.h"
#include "../mlp/model.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/layers/losses.h>
#include <sinter/runtime/event.h>
#include <sinter/runtime/generator.h>
#include <sinter/runtime/pool.h>
#include <sinter/training/loader.h>

namespace bench {

using namespace sinter;

namespace {

constexpr double least_milliseconds = 50;  // of a run, beside which its start is nothing
constexpr std::int64_t least_steps = 100;

/// Items of a class are its prototype and noise, so that there is something to learn. A quarter are
/// labelled as the next class, or losses and gradients would soon be zeros, which a GPU multiplies
/// faster than numbers.
TensorDataset make_data(const StepTask& task, Device device) {
  const std::int64_t items = task.recipe.items;
  const std::int64_t features = task.recipe.sizes.front();
  const std::int64_t classes = task.recipe.sizes.back();
  std::uint32_t state = 1;
  const auto uniform = [&state] {  // in [-0.5, 0.5)
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  };
  std::vector<float> prototypes(static_cast<std::size_t>(classes * features));
  std::ranges::generate(prototypes, uniform);
  Tensor inputs = Tensor::empty({items, features});
  Tensor labels = Tensor::empty({items}, DType::int64);
  float* row = inputs.data<float>();
  for (std::int64_t i = 0; i < items; ++i, row += features) {
    const std::int64_t drawn = i % classes;
    const bool is_wrong = i / classes % 4 == 3;
    labels.data<std::int64_t>()[i] = is_wrong ? (drawn + 1) % classes : drawn;
    const float* prototype = prototypes.data() + drawn * features;
    for (std::int64_t k = 0; k < features; ++k) {
      row[k] = prototype[k] + uniform();
    }
  }
  return TensorDataset(inputs.to(task.dtype), labels).to(device);
}

Sequential make_model_on(const StepTask& task, const StepSettings& settings) {
  manual_seed(7);
  Sequential model = make_model(task.recipe);
  model.to(settings.autocast ? DType::float32 : task.dtype);
  model.to(settings.device);
  model.train();
  return model;
}

std::size_t bytes_in_use(Device device) {
  reset_peak(device);
  return pool_stats(device).in_use;
}

std::vector<float> values(const Tensor& losses) {
  return losses.to(DType::float32).to_vector<float>();
}

std::string problem_of(const StepResult& result, std::int64_t fallbacks) {
  if (fallbacks > 0) {
    return text(fallbacks, " calls ran on the CPU");
  }
  if (!std::isfinite(result.last_loss) || !(result.last_loss < result.first_loss)) {
    return text("learnt nothing: loss ", result.first_loss, ", then ", result.last_loss);
  }
  return "";
}

}  // namespace

Training::Training(const StepTask& task, const StepSettings& settings)
    : task_(task),
      settings_(settings),
      data_(make_data(task, settings.device)),
      bytes_before_(bytes_in_use(settings.device)),
      model_(make_model_on(task, settings)),
      optimizer_(make_optimizer(task.recipe, model_)),
      step_(model_, CrossEntropyLoss{}, *optimizer_) {
  if (settings.autocast && task.dtype != DType::float32) {
    scope_.emplace(task.dtype);
  }
  if (settings.eager) {
    step_.set_capture(false);
  }
  const std::int64_t items_of_call = settings.steps_per_graph * task.recipe.batch;
  for (std::int64_t epoch = 0; std::ssize(order_) < 4 * items_of_call; ++epoch) {
    const std::vector<std::int64_t> next = permutation(data_.size(), 7, epoch);
    order_.insert(order_.end(), next.begin(), next.end());
  }
}

Tensor Training::advance() {
  const auto items = static_cast<std::size_t>(settings_.steps_per_graph) *
                     static_cast<std::size_t>(task_.recipe.batch);
  if (at_ + items > order_.size()) {
    at_ = 0;
  }
  const auto part = std::span<const std::int64_t>(order_).subspan(at_, items);
  at_ += items;
  return step_(data_, part, task_.recipe.batch);
}

void Training::warm_up() {
  first_loss_ = values(advance()).front();  // eager
  advance();                                // recorded
  advance();                                // replayed
  synchronize(settings_.device);
}

std::size_t Training::peak_bytes() const {
  return pool_stats(settings_.device).peak_in_use - bytes_before_;
}

StepResult time_steps(const StepTask& task, const StepSettings& settings) {
  const std::int64_t fallbacks = fallback_count();
  Training training(task, settings);
  training.warm_up();
  Tensor losses;
  Event begin(settings.device);
  Event end(settings.device);
  const auto milliseconds_of = [&](std::int64_t calls) {
    begin.record();
    for (std::int64_t call = 0; call < calls; ++call) {
      losses = training.advance();
    }
    end.record();
    return end.milliseconds_since(begin);
  };
  const double one = std::max(milliseconds_of(1), 1e-3);
  const std::int64_t calls =
      std::max((least_steps + settings.steps_per_graph - 1) / settings.steps_per_graph,
               static_cast<std::int64_t>(std::ceil(least_milliseconds / one)));
  StepResult result;
  for (int run = 0; run < settings.runs; ++run) {
    result.runs.push_back(1e3 * milliseconds_of(calls) /
                          static_cast<double>(calls * settings.steps_per_graph));
  }
  training.check();
  const std::vector<float> last = values(losses);
  result.us = median(result.runs);
  result.replayed = training.replays();
  result.first_loss = training.first_loss();
  result.last_loss =
      std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
  result.peak_bytes = training.peak_bytes();
  result.problem = problem_of(result, fallback_count() - fallbacks);
  return result;
}

}  // namespace bench
