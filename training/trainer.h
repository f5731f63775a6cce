// Runs the training loop: batches, forward, loss, backward, update, and a report of each epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <sinter/layers/module.h>
#include <sinter/training/captured_step.h>
#include <sinter/training/dataset.h>
#include <sinter/training/grad_scaler.h>
#include <sinter/training/loader.h>
#include <sinter/training/optimizers.h>
#include <sinter/training/schedules.h>

namespace sinter {

class EpochRun;

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
  std::int64_t skipped = 0;  ///< steps left out since gradients overflowed: float16 only
};

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t batch_size = 64;
  const Dataset* validation = nullptr;  ///< evaluated after each epoch
  bool shuffle = true;
  bool drop_last = false;
  std::optional<std::uint64_t> seed = std::nullopt;  ///< of the shuffling; else global_seed()
  Schedule schedule = nullptr;                       ///< a factor on the optimizer's lr; else 1
  /// Gradients are held to this norm before each update, as clip_grad_norm() does.
  std::optional<double> max_grad_norm = std::nullopt;
  /// float16 or bfloat16: steps run in such an Autocast scope, float16 with a GradScaler, which
  /// goes on from one call of fit to the next. Validation is in the model's own type, as evaluate()
  /// is.
  std::optional<DType> autocast = std::nullopt;
  GradScalerOptions scaler = {};  ///< of the first call with float16
  /// On a device that can, steps are recorded as a graph and replayed (CapturedStep), many at a
  /// time where the data set fits into the device's memory. The same bits come out without, but a
  /// loss that is not finite is then found before its step has changed anything but running
  /// statistics, and a loss or module of one's own may do something else in each step.
  bool capture = true;
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
  /// learning rate (with float16: where that was so in all steps of an epoch), and whatever data
  /// set, model and loss throw.
  std::vector<EpochReport> fit(const Dataset& data, const FitOptions& options = {});
  /// Mean loss, and accuracy where the targets are class labels, in eval mode.
  Evaluation evaluate(const Dataset& data, std::int64_t batch_size = 1000);

 private:
  /// The steps of an epoch.
  void run_eagerly(EpochRun& run, DataLoader& loader);
  void run_captured(EpochRun& run, DataLoader& loader, const Dataset* resident);
  Device device();

  Module& model_;
  Optimizer& optimizer_;
  Loss loss_;
  std::optional<GradScaler> scaler_;
  bool scales_ = false;  // in this call of fit
  CapturedStep step_;
  std::int64_t epochs_done_ = 0;  // over all calls of fit, so that each shuffles anew
};

}  // namespace sinter
