// Runs the training loop: batches, forward, loss, backward, update, and a report of each epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sinter/layers/module.h>
#include <sinter/training/dataset.h>
#include <sinter/training/optimizers.h>
#include <sinter/training/schedules.h>

namespace sinter {

/// loss(output of the model, targets): a scalar that is a mean over the batch.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& targets)>;

struct Evaluation {
  std::int64_t items = 0;
  double loss = 0.0;  ///< mean over the items
  /// Share of items whose largest logit is at the label; for class labels [rows] only.
  std::optional<double> accuracy;
};

struct EpochReport {
  std::int64_t epoch = 0;  ///< counted from 1 in each call of fit
  std::int64_t items = 0;
  double loss = 0.0;     ///< mean over the items, as they were trained on
  double seconds = 0.0;  ///< of training, without validation
  std::optional<Evaluation> validation;
};

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t batch_size = 64;
  const Dataset* validation = nullptr;  ///< evaluated after each epoch
  bool shuffle = true;
  bool drop_last = false;
  std::optional<std::uint64_t> seed = std::nullopt;  ///< of the shuffling; else global_seed()
  Schedule schedule = nullptr;                       ///< a factor on the optimizer's lr; else 1
  /// A moving bar on a terminal, and a line for each epoch on standard output.
  bool progress = true;
  /// Called after each epoch; false ends the run.
  std::function<bool(const EpochReport&)> on_epoch = nullptr;
};

/// Trains `model`, which it puts into train mode, on the device where its parameters are. Model and
/// optimizer must outlive it.
class Trainer {
 public:
  Trainer(Module& model, Loss loss, Optimizer& optimizer);

  /// A report for each epoch. Throws Error where the loss is no longer finite, naming step and
  /// learning rate, and whatever data set, model and loss throw.
  std::vector<EpochReport> fit(const Dataset& data, const FitOptions& options = {});
  /// Mean loss, and accuracy where the targets are class labels, in eval mode.
  Evaluation evaluate(const Dataset& data, std::int64_t batch_size = 1000);

 private:
  /// One forward, backward and update; the loss of the batch.
  double step(const Batch& batch);
  Device device();

  Module& model_;
  Loss loss_;
  Optimizer& optimizer_;
  std::int64_t epochs_done_ = 0;  // over all calls of fit, so that each shuffles anew
};

}  // namespace sinter
