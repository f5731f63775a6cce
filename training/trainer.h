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
#include <sinter/training/early_stopping.h>
#include <sinter/training/ema.h>
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

/// A step that the device has been given.
struct StepReport {
  std::int64_t step = 0;   ///< of this call of fit, counted from 1
  std::int64_t epoch = 0;  ///< likewise
  std::int64_t items = 0;
  double lr = 0.0;
  /// A scalar on the device, of before the update. Reading it waits for the device.
  Tensor loss;
};

struct ValidationReport {
  std::int64_t step = 0;   ///< steps made so far in this call of fit
  std::int64_t epoch = 0;  ///< counted from 1
  Evaluation evaluation;
};

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t batch_size = 64;
  /// So many batches are gone through for one update (gradient accumulation), as if they were one
  /// of accumulate * batch_size items: CapturedStep::set_micro_batch. A step, for schedules,
  /// reports and checkpoints, is an update. Where an epoch ends with fewer batches or items, their
  /// update is by the mean over what there is; drop_last leaves it out.
  std::int64_t accumulate = 1;
  const Dataset* validation = nullptr;  ///< evaluated after each epoch
  std::int64_t validate_every = 0;  ///< and, unless it is 0, after so many steps, again and again
  bool shuffle = true;
  bool drop_last = false;
  /// Threads that fetch batches ahead, and how many each, as LoaderOptions has them; a data set
  /// that lies on the device needs none.
  int workers = 0;
  std::int64_t prefetch = 2;
  std::optional<std::uint64_t> seed = std::nullopt;  ///< of the shuffling; else global_seed()
  Schedule schedule = nullptr;                       ///< a factor on the optimizer's lr; else 1
  /// Gradients are held to this norm before each update, as clip_grad_norm() does.
  std::optional<double> max_grad_norm = std::nullopt;
  /// Each element of the gradients is held within this bound, before their norm is.
  std::optional<double> max_grad_value = std::nullopt;
  /// Averages of the weights, updated with each step; validation is of them, the model keeps its
  /// own. A part of checkpoints, whose weights are the model's: EMA::copy_to() takes the averages.
  EMA* ema = nullptr;
  /// Ends the run by the validation loss, or accuracy where it maximises, of the epochs, and puts
  /// the best weights back at the end, if it keeps them: with `ema` the averages that were
  /// validated. It begins anew with each run that is not resumed. A part of checkpoints.
  EarlyStopping* early_stopping = nullptr;
  /// Every batch is the first one, unshuffled: a test that model, loss and learning rate can work
  /// at all, since then the loss comes near 0. Said in the log with what became of the loss.
  bool overfit_batch = false;
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
  /// Called for each step once the device has been given it. All but the report's loss is known to
  /// the host and costs no waiting; reading the loss, or weights, waits for the device. Where a
  /// graph holds several steps, the calls for all of them come after it: weights and optimizer are
  /// then those after the last.
  std::function<void(const StepReport&)> on_step = nullptr;
  /// Called after each validation, those at the ends of epochs too, before on_epoch.
  std::function<void(const ValidationReport&)> on_validation = nullptr;
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
  /// After some steps: validates and writes the checkpoint that are due. Whether a signal ends the
  /// run.
  bool stops(Fit& fit, EpochRun& run);
  Evaluation validate(Fit& fit, std::int64_t step, std::int64_t epoch);
  void tell(Fit& fit, const EpochRun& run, const Tensor& losses, std::int64_t items_each,
            const std::vector<double>& lrs);
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
