#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include <sinter/autograd/autocast.h>
#include <sinter/runtime/backend.h>
#include <sinter/runtime/log.h>
#include <sinter/training/epoch_run.h>
#include <sinter/training/progress.h>
#include <sinter/training/trainer_fit.h>

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

void print(const EpochReport& report, std::int64_t epochs) {
  std::printf("epoch %lld/%lld  loss %.4f  ", static_cast<long long>(report.epoch),
              static_cast<long long>(epochs), report.loss);
  if (report.validation) {
    std::printf("%s", validation_text(*report.validation).c_str());
  }
  if (report.skipped > 0) {
    std::printf("%lld steps left out  ", static_cast<long long>(report.skipped));
  }
  std::printf("%.2f s  %.0f items/s\n", report.seconds,
              static_cast<double>(report.items) / report.seconds);
  std::fflush(stdout);
}

// The data set where its batches are gathered on the device: null where it cannot lie there, or
// would leave too little room.
std::unique_ptr<Dataset> resident_copy(const Dataset& data, Device device) {
  if (device.type == DeviceType::cpu || data.bytes() == 0 ||
      data.bytes() > backend(device.type).memory(device.index).free / 2) {
    return nullptr;
  }
  return data.on(device);
}

double metric_of(const Evaluation& validation, const EarlyStopping& stopping) {
  if (!stopping.maximises()) {
    return validation.loss;
  }
  check(validation.accuracy.has_value(),
        "Trainer::fit: early_stopping maximises, and the targets are no class labels, of which "
        "there would be an accuracy");
  return *validation.accuracy;
}

void check_options(const FitOptions& options, const Module& model) {
  check(options.epochs >= 0, "Trainer::fit: epochs must be at least 0, got ", options.epochs);
  check(options.batch_size >= 1, "Trainer::fit: batch_size must be at least 1, got ",
        options.batch_size);
  check(options.accumulate >= 1 && options.batch_size <= INT64_MAX / options.accumulate,
        "Trainer::fit: accumulate must be at least 1 and not beyond all bounds, got ",
        options.accumulate);
  check(!options.max_grad_norm || *options.max_grad_norm > 0,
        "Trainer::fit: max_grad_norm must be above 0, got ", options.max_grad_norm.value_or(0));
  check(!options.max_grad_value || *options.max_grad_value > 0,
        "Trainer::fit: max_grad_value must be above 0, got ", options.max_grad_value.value_or(0));
  check(options.validate_every >= 0, "Trainer::fit: validate_every must be at least 0, got ",
        options.validate_every);
  const auto needs_validation = [&](bool is_set, const char* what) {
    check(!is_set || options.validation != nullptr, "Trainer::fit: ", what,
          " needs FitOptions::validation");
  };
  needs_validation(options.checkpoint && options.checkpoint->best != BestBy::none,
                   "checkpoint.best");
  needs_validation(options.validate_every > 0, "validate_every");
  needs_validation(options.early_stopping != nullptr, "early_stopping");
  check(options.ema == nullptr || &options.ema->model() == &model,
        "Trainer::fit: FitOptions::ema averages another model than the trainer's");
  check(options.early_stopping == nullptr || &options.early_stopping->model() == &model,
        "Trainer::fit: FitOptions::early_stopping keeps the weights of another model than the "
        "trainer's");
}

// The first batch of a data set, as many times as there are batches.
std::vector<std::int64_t> first_batch_again(const DataLoader& loader, std::int64_t items) {
  const std::int64_t size = std::min(items, loader.options().batch_size);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size * loader.batches()));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<std::int64_t>(i) % size;
  }
  return indices;
}

// The loss of each is a mean over its steps, the first of which are long gone by its end.
void say_overfit(const std::vector<EpochReport>& reports, std::int64_t items) {
  if (!reports.empty()) {
    log::warn(text("Trainer: overfit_batch: training on the first ", items,
                   " items alone took their mean loss from ", reports.front().loss,
                   " in the first epoch to ", reports.back().loss, " in epoch ",
                   reports.back().epoch,
                   "; where it does not come near 0, look at model, loss and learning rate"));
  }
}

}  // namespace

Trainer::Trainer(Module& model, Loss loss, Optimizer& optimizer)
    : model_(model), optimizer_(optimizer), loss_(std::move(loss)), step_(model, loss_, optimizer) {
  check(loss_ != nullptr, "Trainer: the loss is empty");
}

Device Trainer::device() { return optimizer_.parameters().front().state->device; }

bool Trainer::run_epoch(Fit& fit) {
  FitState& state = fit.state;
  const FitOptions& options = fit.options;
  EpochReport report;
  report.epoch = state.epoch + 1;
  fit.start = Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(state.seconds));
  {
    ProgressBar bar(text("epoch ", report.epoch, "/", options.epochs), fit.items, options.progress);
    EpochRun run([&](std::int64_t step) { return fit.lr_at(optimizer_, step); },
                 state.epoch * state.batches, state.batch, state.sums, optimizer_.steps(), bar);
    if (scales_) {
      state.skipped_before = state.batch == 0 ? scaler_->skipped() : state.skipped_before;
      run.allow_overflow();
    }
    std::optional<Autocast> scope;
    if (options.autocast) {
      scope.emplace(*options.autocast);
    }
    fit.loader.set_epoch(state.epochs_before + state.epoch, state.batch);
    const bool complete = step_.captures() ? run_captured(fit, run) : run_eagerly(fit, run);
    report.items = run.sums().items;
    report.loss = run.loss();
    if (scales_) {
      scaler_->settle(optimizer_);
      report.skipped = scaler_->skipped() - state.skipped_before;
    }
    if (!complete) {
      report.stopped_by = fit.checkpoints.signal();
    } else if (scales_) {
      check(report.items == 0 || std::isfinite(report.loss), "Trainer: the loss of all ",
            state.batches, " steps of the epoch overflows float16, which ends at 65504; scale ",
            "inputs to about 1, or take bfloat16");
      constexpr double least_scale = 0x1p-24;  // at which float16's gradients are all zeros
      check(scaler_->scale_factor() >= least_scale, "Trainer: gradients overflow float16 again ",
            "and again, and the loss scale is down to ", scaler_->scale_factor(),
            "; look for inputs that are not finite, or take bfloat16");
    }
  }
  report.seconds = fit.seconds();
  report.roll_backs = state.roll_backs;
  for (const EpochReport& earlier : state.reports) {
    report.roll_backs -= earlier.roll_backs;
  }
  if (report.stopped_by != 0) {
    state.reports.push_back(report);
    return false;
  }
  ++epochs_done_;
  if (options.validation != nullptr) {
    report.validation = validate(fit, fit.step(state.batches), report.epoch);
  }
  if (options.progress) {
    print(report, options.epochs);
  }
  state.reports.push_back(report);
  const double lr_before = optimizer_.lr();
  bool goes_on = !options.on_epoch || options.on_epoch(report);
  if (options.early_stopping != nullptr) {
    const auto judge = [&](EarlyStopping& stopping) {
      goes_on = stopping.step(metric_of(*report.validation, stopping)) && goes_on;
    };
    if (options.ema != nullptr) {
      const auto averaged = options.ema->apply();  // the weights that it may keep are these
      judge(*options.early_stopping);
    } else {
      judge(*options.early_stopping);
    }
  }
  check(!goes_on || !options.schedule || optimizer_.lr() == lr_before,
        "Trainer::fit: on_epoch changed the learning rate to ", optimizer_.lr(),
        ", but the schedule sets it anew in each step; give one of the two");
  ++state.epoch;
  state.batch = 0;
  state.sums = {};
  state.seconds = 0;
  const bool is_best = options.checkpoint && state.note_best(options.checkpoint->best);
  const int signal = fit.checkpoints.signal();
  goes_on = goes_on && signal == 0 && state.epoch < options.epochs;
  if (!goes_on || is_best || fit.checkpoints.is_due_after(state.epoch) ||
      fit.checkpoints.is_due(state.batches)) {
    fit.checkpoints.save(is_best);
  }
  state.reports.back().stopped_by = signal;
  return goes_on;
}

void Trainer::roll_back(Fit& fit, const NonFiniteError& error) {
  FitState& state = fit.state;
  optimizer_.clear_gradients();
  const std::int64_t so_far = state.roll_backs;
  const double factor = fit.checkpoints.roll_back(error, so_far);
  state.roll_backs = so_far + 1;
  state.base_lr *= factor;
  optimizer_.set_lr(optimizer_.lr() * factor);
  epochs_done_ = state.epochs_before + state.epoch;
}

std::vector<EpochReport> Trainer::fit(const Dataset& all, const FitOptions& options) {
  check_options(options, model_);
  model_.train();
  optimizer_.clear_gradients();  // what a run that ended with an error left
  const auto loader_of = [&](const Dataset& items, std::optional<std::uint64_t> seed) {
    return DataLoader(items, {.batch_size = options.batch_size * options.accumulate,
                              .shuffle = options.shuffle && !options.overfit_batch,
                              .drop_last = options.drop_last,
                              .seed = seed,
                              .device = device(),
                              .workers = options.workers,
                              .prefetch = options.prefetch});
  };
  const DataLoader of_all = loader_of(all, options.seed);
  std::optional<Subset> first_batch;
  if (options.overfit_batch) {
    first_batch.emplace(all, first_batch_again(of_all, all.size()));
  }
  const Dataset& data = first_batch ? *first_batch : all;
  FitState state(options, of_all, all.size());
  state.epochs_before = epochs_done_;
  state.base_lr = optimizer_.lr();
  step_.set_capture(options.capture);
  step_.set_max_grad_norm(options.max_grad_norm);
  step_.set_max_grad_value(options.max_grad_value);
  step_.set_micro_batch(options.accumulate > 1 ? std::optional(options.batch_size) : std::nullopt);
  step_.set_ema(options.ema);
  if (options.autocast) {
    const Autocast takes_the_type(*options.autocast);
  }
  scales_ = options.autocast == DType::float16;
  if (scales_ && !scaler_) {
    scaler_.emplace(options.scaler);
  }
  step_.set_grad_scaler(scales_ ? &*scaler_ : nullptr);
  step_.reset();  // what a loss of the caller's depends on may have changed
  CheckpointParts parts = options.parts;
  for (const auto& [name, part] : CheckpointParts{{"optimizer", &optimizer_},
                                                  {"trainer", &state},
                                                  {"scaler", scales_ ? &*scaler_ : nullptr},
                                                  {"ema", options.ema},
                                                  {"early_stopping", options.early_stopping}}) {
    check(!parts.contains(name), "Trainer::fit: FitOptions::parts holds a \"", name,
          "\", which is the Trainer's own");
    if (part != nullptr) {
      parts[name] = part;
    }
  }
  Checkpointer checkpoints(options.checkpoint, model_, optimizer_, parts);
  if (options.early_stopping != nullptr) {
    options.early_stopping->reset();
  }
  if (!options.resume.empty()) {
    checkpoints.resume(options.resume);
    epochs_done_ = state.epochs_before + state.epoch;
  }
  DataLoader loader = loader_of(data, state.seed);
  const auto resident = step_.captures() ? resident_copy(data, device()) : nullptr;
  Fit fit{options, state, loader, data.size(), resident.get(), checkpoints};
  // Without a schedule the rate is the caller's to change, in on_epoch.
  const auto restore_lr = [&] {
    if (options.schedule) {
      optimizer_.set_lr(state.base_lr);
    }
  };
  try {
    if (options.checkpoint && options.checkpoint->roll_backs > 0 && options.resume.empty()) {
      checkpoints.save();  // the first epoch has somewhere to go back to
    }
    const bool had_stopped = !options.resume.empty() && options.early_stopping != nullptr &&
                             options.early_stopping->stopped();
    for (bool goes_on = state.epoch < options.epochs && !had_stopped; goes_on;) {
      try {
        goes_on = run_epoch(fit);
      } catch (const NonFiniteError& error) {
        roll_back(fit, error);
      }
    }
    checkpoints.finish();
  } catch (...) {
    restore_lr();
    throw;
  }
  restore_lr();
  // A signal that came while the last checkpoint was written has ended nothing, but is told.
  const bool was_stopped = !state.reports.empty() && state.reports.back().stopped_by != 0;
  if (!was_stopped && !state.reports.empty()) {
    state.reports.back().stopped_by = checkpoints.signal();
  }
  if (options.early_stopping != nullptr && !was_stopped) {
    options.early_stopping->restore_best();
  }
  if (options.overfit_batch) {
    say_overfit(state.reports, std::min(all.size(), loader.options().batch_size));
  }
  return std::move(state.reports);
}

}  // namespace sinter
