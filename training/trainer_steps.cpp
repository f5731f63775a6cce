// The steps of an epoch, and what happens between two of them.
#include <algorithm>
#include <cstdio>
#include <span>

#include <sinter/autograd/autocast.h>
#include <sinter/training/epoch_run.h>
#include <sinter/training/trainer_fit.h>

namespace sinter {
namespace {

// Steps in one graph: enough that what a replay costs the host does not count, and recording them
// does not take long.
constexpr std::int64_t most_steps_in_graph = 64;
// With a GradScaler each replay begins with a look at what the last one left out, and brings along
// the constants of each step for every number of steps left out before it.
constexpr std::int64_t most_scaled_steps_in_graph = 16;

}  // namespace

// One step after the other; a loss that is not finite is found before it has changed anything.
bool Trainer::run_eagerly(Fit& fit, EpochRun& run) {
  for (const Batch& batch : fit.loader) {
    const double lr = run.lrs(1).front();
    optimizer_.set_lr(lr);
    const double loss =
        step_.eager(batch, [&](double value) { run.look_at(value, optimizer_.steps() + 1, lr); });
    run.add(loss, batch.inputs.size(0));
    if (fit.options.on_step) {
      tell(fit, run, Tensor::full({1}, loss), batch.inputs.size(0), {lr});
    }
    if (stops(fit, run)) {
      return false;
    }
  }
  return true;
}

bool Trainer::run_captured(Fit& fit, EpochRun& run) {
  const auto read_now_and_then = [&] {
    if (run.is_due()) {
      step_.check();
      run.read();
    }
  };
  const std::int64_t batch_size = fit.loader.options().batch_size;
  const std::int64_t most_steps = std::max<std::int64_t>(
      1, (scales_ ? most_scaled_steps_in_graph : most_steps_in_graph) / fit.options.accumulate);
  if (fit.resident == nullptr) {
    for (const Batch& batch : fit.loader) {
      const std::vector<double> lrs = run.lrs(1);
      optimizer_.set_lr(lrs.front());
      const Tensor loss = step_(batch).reshape({1});
      run.add(loss, batch.inputs.size(0), lrs);
      tell(fit, run, loss, batch.inputs.size(0), lrs);
      read_now_and_then();
      if (stops(fit, run)) {
        return false;
      }
    }
  } else {
    const std::vector<std::int64_t> order = fit.loader.next_order();
    const std::span<const std::int64_t> items(order);
    const auto n = static_cast<std::int64_t>(order.size());
    for (std::int64_t begin = 0; begin < n;) {
      // Full graphs, one for the rest of the full batches, one for the last batch; checkpoints
      // and validations lie between two.
      const std::int64_t steps =
          std::max<std::int64_t>(1, std::min({most_steps, (n - begin) / batch_size,
                                              fit.checkpoints.steps_to_next(run.batch()),
                                              fit.steps_to_validation(run.batch())}));
      const std::int64_t end = std::min(n, begin + steps * batch_size);
      const std::vector<double> lrs = run.lrs(steps);
      const Tensor losses = step_(
          *fit.resident,
          items.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          std::min(batch_size, end - begin), lrs);
      run.add(losses, std::min(batch_size, end - begin), lrs);
      tell(fit, run, losses, std::min(batch_size, end - begin), lrs);
      begin = end;
      read_now_and_then();
      if (stops(fit, run)) {
        return false;
      }
    }
  }
  step_.check();
  run.read();
  return true;
}

bool Trainer::stops(Fit& fit, EpochRun& run) {
  const bool stop = fit.checkpoints.signal() != 0;
  FitState& state = fit.state;
  // Behind the last batch the epoch's own validation comes.
  if (run.batch() < state.batches && fit.options.validate_every > 0 &&
      fit.step(run.batch()) % fit.options.validate_every == 0) {
    step_.check();
    run.read();  // so that a loss that was not finite is known before
    const auto before = std::chrono::steady_clock::now();
    const Evaluation found = validate(fit, fit.step(run.batch()), state.epoch + 1);
    if (fit.options.progress) {
      run.clear_bar();
      std::printf("step %lld  %s\n", static_cast<long long>(fit.step(run.batch())),
                  validation_text(found).c_str());
      std::fflush(stdout);
    }
    fit.start += std::chrono::steady_clock::now() - before;  // the epoch's time is of training
  }
  if (stop || (run.batch() < state.batches && fit.checkpoints.is_due(run.batch()))) {
    step_.check();
    run.read();  // so that what is saved comes from losses that were finite
    if (scales_) {
      scaler_->settle(optimizer_);
    }
    state.batch = run.batch();
    state.sums = run.sums();
    state.seconds = fit.seconds();
    fit.checkpoints.save();
  }
  return stop;
}

std::string validation_text(const Evaluation& evaluation) {
  char out[96];
  std::snprintf(out, sizeof out, "validation loss %.4f  ", evaluation.loss);
  std::string text = out;
  if (evaluation.accuracy) {
    std::snprintf(out, sizeof out, "accuracy %.2f%%  ", 100 * *evaluation.accuracy);
    text += out;
  }
  return text;
}

Evaluation Trainer::validate(Fit& fit, std::int64_t step, std::int64_t epoch) {
  const Autocast none(std::nullopt);
  const FitOptions& options = fit.options;
  const auto evaluated = [&] {
    if (options.ema != nullptr) {
      const auto averaged = options.ema->apply();
      return evaluate(*options.validation);
    }
    return evaluate(*options.validation);
  };
  const ValidationReport report{step, epoch, evaluated()};
  if (options.on_validation) {
    options.on_validation(report);
  }
  return report.evaluation;
}

void Trainer::tell(Fit& fit, const EpochRun& run, const Tensor& losses, std::int64_t items_each,
                   const std::vector<double>& lrs) {
  if (!fit.options.on_step) {
    return;
  }
  for (std::int64_t k = 0; k < losses.numel(); ++k) {
    fit.options.on_step({fit.step(run.batch() - losses.numel() + k + 1), fit.state.epoch + 1,
                         items_each, lrs[static_cast<std::size_t>(k)],
                         losses.view_rows(k, k + 1).reshape(Shape{})});
  }
}

}  // namespace sinter
