#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include <sinter/autograd/functions.h>
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
  std::printf("%.2f s  %.0f items/s\n", report.seconds,
              static_cast<double>(report.items) / report.seconds);
  std::fflush(stdout);
}

}  // namespace

Trainer::Trainer(Module& model, Loss loss, Optimizer& optimizer)
    : model_(model), loss_(std::move(loss)), optimizer_(optimizer) {
  check(loss_ != nullptr, "Trainer: the loss is empty");
}

Device Trainer::device() { return optimizer_.parameters().front().state->device; }

double Trainer::step(const Batch& batch) {
  Tape tape;
  const Tensor loss = loss_(model_(batch.inputs), batch.targets);
  const double value = loss.item();
  check(std::isfinite(value), "Trainer: the loss is ", value, " at step ", optimizer_.steps() + 1,
        " with learning rate ", optimizer_.lr(),
        "; a smaller rate, or inputs scaled to about 1, usually help");
  tape.backward(loss);
  optimizer_.step();
  return value;
}

std::vector<EpochReport> Trainer::fit(const Dataset& data, const FitOptions& options) {
  check(options.epochs >= 0, "Trainer::fit: epochs must be at least 0, got ", options.epochs);
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
  std::int64_t done_steps = 0;
  std::vector<EpochReport> reports;
  const auto restore_lr = [&] { optimizer_.set_lr(base_lr); };
  try {
    for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
      EpochReport report;
      report.epoch = epoch;
      const auto start = Clock::now();
      {
        ProgressBar bar(text("epoch ", epoch, "/", options.epochs), data.size(), options.progress);
        double weighted = 0;
        for (const Batch& batch : loader) {
          if (options.schedule) {
            optimizer_.set_lr(base_lr *
                              options.schedule(static_cast<double>(done_steps) / total_steps));
          }
          const std::int64_t items = batch.inputs.size(0);
          weighted += step(batch) * static_cast<double>(items);
          report.items += items;
          ++done_steps;
          bar.update(report.items, weighted / static_cast<double>(report.items));
        }
        report.loss = weighted / static_cast<double>(report.items);
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
      if (options.on_epoch && !options.on_epoch(report)) {
        break;
      }
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
