// What a call of Trainer::fit works with. Internal to the Trainer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <sinter/training/checkpointer.h>
#include <sinter/training/fit_state.h>
#include <sinter/training/loader.h>
#include <sinter/training/trainer.h>

namespace sinter {

/// "validation loss 0.0712  accuracy 97.81%  "
std::string validation_text(const Evaluation& evaluation);

struct Trainer::Fit {
  const FitOptions& options;
  FitState& state;
  DataLoader& loader;
  std::int64_t items;       // of the data set
  const Dataset* resident;  // the data set on the device, or null
  Checkpointer& checkpoints;
  std::chrono::steady_clock::time_point start = {};  // of the epoch, had it never been interrupted

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::int64_t step(std::int64_t batch) const { return state.epoch * state.batches + batch; }
  /// Steps from a batch of the epoch to the next validation within it.
  std::int64_t steps_to_validation(std::int64_t batch) const {
    const std::int64_t every = options.validate_every;
    return every > 0 ? every - step(batch) % every : INT64_MAX;
  }
  double lr_at(const Optimizer& optimizer, std::int64_t step) const {
    if (!options.schedule) {
      return optimizer.lr();
    }
    const auto total = static_cast<double>(options.epochs) * static_cast<double>(state.batches);
    return state.base_lr * options.schedule({static_cast<double>(step) / total, step,
                                             step / state.batches, state.base_lr});
  }
};

}  // namespace sinter
