#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include <sinter/autograd/autocast.h>
#include <sinter/runtime/backend.h>
#include <sinter/training/checkpointer.h>
#include <sinter/training/epoch_run.h>
#include <sinter/training/fit_state.h>
#include <sinter/training/loader.h>
#include <sinter/training/progress.h>
#include <sinter/training/trainer.h>

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

void print(const EpochReport& report, std::int64_t epochs) {
  std::printf("epoch %lld/%lld  loss %.4f  ", static_cast<long long>(report.epoch),
              static_cast<long long>(epochs), report.loss);
  if (report.validation) {
    std::printf("validation loss %.4f  ", report.validation->loss);
    if (report.validation->accuracy) {
      std::printf("accuracy %.2f%%  ", 100 * *report.validation->accuracy);
    }
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

// Steps in one graph: enough that what a replay costs the host does not count, and recording them
// does not take long.
constexpr std::int64_t most_steps_in_graph = 64;
// With a GradScaler each replay begins with a look at what the last one left out, and brings along
// the constants of each step for every number of steps left out before it.
constexpr std::int64_t most_scaled_steps_in_graph = 16;

}  // namespace

Trainer::Trainer(Module& model, Loss loss, Optimizer& optimizer)
    : model_(model), optimizer_(optimizer), loss_(std::move(loss)), step_(model, loss_, optimizer) {
  check(loss_ != nullptr, "Trainer: the loss is empty");
}

Device Trainer::device() { return optimizer_.parameters().front().state->device; }

struct Trainer::Fit {
  const FitOptions& options;
  FitState& state;
  DataLoader& loader;
  std::int64_t items;       // of the data set
  const Dataset* resident;  // the data set on the device, or null
  Checkpointer& checkpoints;
  Clock::time_point start = {};  // of the epoch, had it never been interrupted

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  double lr_at(const Optimizer& optimizer, std::int64_t step) const {
    if (!options.schedule) {
      return optimizer.lr();
    }
    const auto total = static_cast<double>(options.epochs) * static_cast<double>(state.batches);
    return state.base_lr * options.schedule({static_cast<double>(step) / total, step,
                                             step / state.batches, state.base_lr});
  }
};

// One step after the other; a loss that is not finite is found before it has changed anything.
bool Trainer::run_eagerly(Fit& fit, EpochRun& run) {
  for (const Batch& batch : fit.loader) {
    const double lr = run.lrs(1).front();
    optimizer_.set_lr(lr);
    const double loss =
        step_.eager(batch, [&](double value) { run.look_at(value, optimizer_.steps() + 1, lr); });
    run.add(loss, batch.inputs.size(0));
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
  const std::int64_t most_steps = scales_ ? most_scaled_steps_in_graph : most_steps_in_graph;
  if (fit.resident == nullptr) {
    for (const Batch& batch : fit.loader) {
      const std::vector<double> lrs = run.lrs(1);
      optimizer_.set_lr(lrs.front());
      run.add(step_(batch).reshape({1}), batch.inputs.size(0), lrs);
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
      // Full graphs, one for the rest of the full batches, one for the last batch; a checkpoint
      // lies between two.
      const std::int64_t steps =
          std::max<std::int64_t>(1, std::min({most_steps, (n - begin) / batch_size,
                                              fit.checkpoints.steps_to_next(run.batch())}));
      const std::int64_t end = std::min(n, begin + steps * batch_size);
      const std::vector<double> lrs = run.lrs(steps);
      const Tensor losses = step_(
          *fit.resident,
          items.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          std::min(batch_size, end - begin), lrs);
      run.add(losses, std::min(batch_size, end - begin), lrs);
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
    report.validation = evaluate(*options.validation);
  }
  if (options.progress) {
    print(report, options.epochs);
  }
  state.reports.push_back(report);
  const double lr_before = optimizer_.lr();
  bool goes_on = !options.on_epoch || options.on_epoch(report);
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

std::vector<EpochReport> Trainer::fit(const Dataset& data, const FitOptions& options) {
  check(options.epochs >= 0, "Trainer::fit: epochs must be at least 0, got ", options.epochs);
  check(!options.max_grad_norm || *options.max_grad_norm > 0,
        "Trainer::fit: max_grad_norm must be above 0, got ", options.max_grad_norm.value_or(0));
  check(!options.checkpoint || options.checkpoint->best == BestBy::none ||
            options.validation != nullptr,
        "Trainer::fit: checkpoint.best needs FitOptions::validation");
  model_.train();
  optimizer_.clear_gradients();  // what a run that ended with an error left
  const auto loader_with = [&](std::optional<std::uint64_t> seed) {
    return DataLoader(data, {.batch_size = options.batch_size,
                             .shuffle = options.shuffle,
                             .drop_last = options.drop_last,
                             .seed = seed,
                             .device = device()});
  };
  FitState state(options, loader_with(options.seed), data.size());
  state.epochs_before = epochs_done_;
  state.base_lr = optimizer_.lr();
  step_.set_capture(options.capture);
  step_.set_max_grad_norm(options.max_grad_norm);
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
                                                  {"scaler", scales_ ? &*scaler_ : nullptr}}) {
    check(!parts.contains(name), "Trainer::fit: FitOptions::parts holds a \"", name,
          "\", which is the Trainer's own");
    if (part != nullptr) {
      parts[name] = part;
    }
  }
  Checkpointer checkpoints(options.checkpoint, model_, optimizer_, parts);
  if (!options.resume.empty()) {
    checkpoints.resume(options.resume);
    epochs_done_ = state.epochs_before + state.epoch;
  }
  DataLoader loader = loader_with(state.seed);
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
    for (bool goes_on = state.epoch < options.epochs; goes_on;) {
      try {
        goes_on = run_epoch(fit);
      } catch (const NonFiniteError& error) {
        roll_back(fit, error);
      }
    }
  } catch (...) {
    restore_lr();
    throw;
  }
  restore_lr();
  return std::move(state.reports);
}

}  // namespace sinter
