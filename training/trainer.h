// Runs the training loop: batches, forward, loss, backward, update, and a report of each epoch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <sinter/layers/module.h>
#include <sinter/training/captured_step.h>
#include <sinter/training/checkpoint.h>
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
  /// Times that a loss which was not finite sent the run back to a checkpoint, since the last
  /// report.
  std::int64_t roll_backs = 0;
  /// The signal that ended the run in this epoch, with a checkpoint, else 0. The epoch may not be
  /// complete then: `items` says how much of it was trained on, and there is no validation.
  int stopped_by = 0;
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
  /// Checkpoints are written, to go on from; none by default.
  std::optional<CheckpointOptions> checkpoint = std::nullopt;
  /// A checkpoint from which the run goes on, with the bits and reports of one that was never
  /// stopped, given the same data set, model and options. Seed and rates are those of the file;
  /// `epochs`, that counts those before, may be more than it was. Where it stopped at the end, the
  /// reports come back and nothing is done.
  std::filesystem::path resume = {};
  /// What else checkpoints of this run hold, as a ReduceOnPlateau: {{"plateau", &plateau}}.
  CheckpointParts parts = {};
  /// A moving bar on a terminal, and a line for each epoch on standard output.
  bool progress = true;
  /// Called after each epoch, before its checkpoint; false ends the run.
  std::function<bool(const EpochReport&)> on_epoch = nullptr;
};

/// Trains `model`, which it puts into train mode, on the device where its parameters are. Model and
/// optimizer must outlive it.
class Trainer {
 public:
  Trainer(Module& model, Loss loss, Optimizer& optimizer);

  /// A report for each epoch. Throws NonFiniteError where the loss is no longer finite, naming
  /// step, learning rate and the last checkpoint (with float16: Error, where that was so in all
  /// steps of an epoch), and whatever data set, model and loss throw.
  std::vector<EpochReport> fit(const Dataset& data, const FitOptions& options = {});
  /// Mean loss, and accuracy where the targets are class labels, in eval mode.
  Evaluation evaluate(const Dataset& data, std::int64_t batch_size = 1000);

 private:
  /// What a call of fit works with.
  struct Fit;
  /// An epoch, or the rest of one, and its report. False: the run ends here.
  bool run_epoch(Fit& fit);
  /// The steps of an epoch. False: a signal ends the run.
  bool run_eagerly(Fit& fit, EpochRun& run);
  bool run_captured(Fit& fit, EpochRun& run);
  /// After some steps: writes the checkpoint that is due. Whether a signal ends the run.
  bool stops(Fit& fit, EpochRun& run);
  void roll_back(Fit& fit, const NonFiniteError& error);
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
