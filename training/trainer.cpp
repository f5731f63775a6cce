#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/functions.h>
#include <sinter/runtime/backend.h>
#include <sinter/training/epoch_run.h>
#include <sinter/training/loader.h>
#include <sinter/training/progress.h>
#include <sinter/training/trainer.h>

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const auto guesses = argmax(logits).to_vector<std::int64_t>();
  const auto truth = labels.to(DType::int64).to_vector<std::int64_t>();
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    correct += guesses[i] == truth[i] ? 1 : 0;
  }
  return correct;
}

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

// One step after the other; a loss that is not finite is found before it has changed anything.
void Trainer::run_eagerly(EpochRun& run, DataLoader& loader) {
  for (const Batch& batch : loader) {
    const double lr = run.lrs(1).front();
    optimizer_.set_lr(lr);
    const double loss =
        step_.eager(batch, [&](double value) { run.look_at(value, optimizer_.steps() + 1, lr); });
    run.add(loss, batch.inputs.size(0));
  }
}

void Trainer::run_captured(EpochRun& run, DataLoader& loader, const Dataset* resident) {
  const auto read_now_and_then = [&] {
    if (run.is_due()) {
      step_.check();
      run.read();
    }
  };
  const std::int64_t batch_size = loader.options().batch_size;
  const std::int64_t most_steps = scales_ ? most_scaled_steps_in_graph : most_steps_in_graph;
  if (resident == nullptr) {
    for (const Batch& batch : loader) {
      const std::vector<double> lrs = run.lrs(1);
      optimizer_.set_lr(lrs.front());
      run.add(step_(batch).reshape({1}), batch.inputs.size(0), lrs);
      read_now_and_then();
    }
  } else {
    const std::vector<std::int64_t> order = loader.next_order();
    const std::span<const std::int64_t> items(order);
    const auto n = static_cast<std::int64_t>(order.size());
    const std::int64_t whole = n / batch_size;
    for (std::int64_t step = 0; step < loader.batches();) {
      // Full graphs, one for the rest of the full batches, one for the last batch.
      const std::int64_t steps = std::max<std::int64_t>(1, std::min(most_steps, whole - step));
      const std::int64_t begin = step * batch_size;
      const std::int64_t end = std::min(n, begin + steps * batch_size);
      const std::vector<double> lrs = run.lrs(steps);
      const Tensor losses = step_(
          *resident,
          items.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          std::min(batch_size, end - begin), lrs);
      run.add(losses, std::min(batch_size, end - begin), lrs);
      step += steps;
      read_now_and_then();
    }
  }
  step_.check();
  run.read();
}

std::vector<EpochReport> Trainer::fit(const Dataset& data, const FitOptions& options) {
  check(options.epochs >= 0, "Trainer::fit: epochs must be at least 0, got ", options.epochs);
  check(!options.max_grad_norm || *options.max_grad_norm > 0,
        "Trainer::fit: max_grad_norm must be above 0, got ", options.max_grad_norm.value_or(0));
  model_.train();
  optimizer_.clear_gradients();  // what a run that ended with an error left
  DataLoader loader(data, {.batch_size = options.batch_size,
                           .shuffle = options.shuffle,
                           .drop_last = options.drop_last,
                           .seed = options.seed,
                           .device = device()});
  loader.set_epoch(epochs_done_);
  const double base_lr = optimizer_.lr();
  const auto total_steps =
      static_cast<double>(options.epochs) * static_cast<double>(loader.batches());
  const auto lr_at = [&](std::int64_t step) {
    return options.schedule ? base_lr * options.schedule({static_cast<double>(step) / total_steps,
                                                          step, step / loader.batches(), base_lr})
                            : optimizer_.lr();
  };
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
  const auto resident = step_.captures() ? resident_copy(data, device()) : nullptr;
  std::int64_t done_steps = 0;
  std::vector<EpochReport> reports;
  // Without a schedule the rate is the caller's to change, in on_epoch.
  const auto restore_lr = [&] {
    if (options.schedule) {
      optimizer_.set_lr(base_lr);
    }
  };
  try {
    for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
      EpochReport report;
      report.epoch = epoch;
      const auto start = Clock::now();
      {
        ProgressBar bar(text("epoch ", epoch, "/", options.epochs), data.size(), options.progress);
        EpochRun run(lr_at, done_steps, optimizer_.steps(), bar);
        const std::int64_t skipped_before = scales_ ? scaler_->skipped() : 0;
        if (scales_) {
          run.allow_overflow();
        }
        std::optional<Autocast> scope;
        if (options.autocast) {
          scope.emplace(*options.autocast);
        }
        if (step_.captures()) {
          run_captured(run, loader, resident.get());
        } else {
          run_eagerly(run, loader);
        }
        done_steps = run.step();
        report.items = run.items();
        report.loss = run.loss();
        if (scales_) {
          scaler_->settle(optimizer_);
          report.skipped = scaler_->skipped() - skipped_before;
          check(report.items == 0 || std::isfinite(report.loss), "Trainer: the loss of all ",
                loader.batches(),
                " steps of the epoch overflows float16, which ends at 65504; scale ",
                "inputs to about 1, or take bfloat16");
          constexpr double least_scale = 0x1p-24;  // at which float16's gradients are all zeros
          check(scaler_->scale_factor() >= least_scale,
                "Trainer: gradients overflow float16 again ",
                "and again, and the loss scale is down to ", scaler_->scale_factor(),
                "; look for inputs that are not finite, or take bfloat16");
        }
      }
      ++epochs_done_;
      report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (options.validation != nullptr) {
        report.validation = evaluate(*options.validation);
      }
      if (options.progress) {
        print(report, options.epochs);
      }
      reports.push_back(report);
      const double lr_before = optimizer_.lr();
      if (options.on_epoch && !options.on_epoch(report)) {
        break;
      }
      check(!options.schedule || optimizer_.lr() == lr_before,
            "Trainer::fit: on_epoch changed the learning rate to ", optimizer_.lr(),
            ", but the schedule sets it anew in each step; give one of the two");
    }
  } catch (...) {
    restore_lr();
    throw;
  }
  restore_lr();
  return reports;
}

Evaluation Trainer::evaluate(const Dataset& data, std::int64_t batch_size) {
  const EvalScope eval(model_);
  Evaluation out;
  double weighted = 0;
  std::int64_t correct = 0;
  bool has_labels = true;
  DataLoader loader(data, {.batch_size = batch_size, .shuffle = false, .device = device()});
  for (const auto& [inputs, targets] : loader) {
    const Tensor output = model_(inputs);
    const std::int64_t items = inputs.size(0);
    weighted += loss_(output, targets).item() * static_cast<double>(items);
    out.items += items;
    has_labels = has_labels && !is_floating(targets.dtype()) && output.rank() == 2 &&
                 output.size(1) > 0 && targets.shape() == Shape{output.size(0)};
    if (has_labels) {
      correct += count_correct(output, targets);
    }
  }
  out.loss = weighted / static_cast<double>(out.items);
  if (has_labels) {
    out.accuracy = static_cast<double>(correct) / static_cast<double>(out.items);
  }
  return out;
}

}  // namespace sinter
