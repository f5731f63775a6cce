// What an epoch of training has done so far: losses, items, learning rates. Internal to the
// Trainer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include <sinter/runtime/tensor.h>
#include <sinter/training/progress.h>

namespace sinter {

/// Throws Error for a loss that is not finite, naming the optimizer's step and learning rate.
void check_loss(double loss, std::int64_t step, double lr);

/// Losses that a device has yet to compute are read now and then only, so that it need not wait for
/// the host.
class EpochRun {
 public:
  /// `lr_at` gives the learning rate of a step of the whole run; the epoch begins at `first_step`
  /// of it and at `optimizer_step` steps of the optimizer's life.
  EpochRun(std::function<double(std::int64_t step)> lr_at, std::int64_t first_step,
           std::int64_t optimizer_step, ProgressBar& bar)
      : lr_at_(std::move(lr_at)), step_(first_step), read_(optimizer_step), bar_(bar) {}

  /// A loss that is not finite is one of a step that was left out, and not of the mean.
  void allow_overflow() { may_overflow_ = true; }

  /// Learning rates of the next `steps` steps.
  std::vector<double> lrs(std::int64_t steps) const;
  /// A step on so many items has been made.
  void add(double loss, std::int64_t items);
  /// Steps with these learning rates have been given to the device.
  void add(const Tensor& losses, std::int64_t items_each, std::vector<double> lrs);
  /// Whether it is time to read().
  bool is_due() const;
  /// Waits for the losses. Throws Error for one that is not finite.
  void read();
  /// Throws Error for a loss that is not finite, where that is not allowed.
  void look_at(double loss, std::int64_t step, double lr) const;

  std::int64_t step() const { return step_; }
  std::int64_t items() const { return items_; }
  /// The mean over the items.
  double loss() const { return weighted_ / static_cast<double>(items_ - overflowed_); }

 private:
  struct Waiting {
    Tensor losses;
    std::int64_t items_each;
    std::vector<double> lrs;
  };
  using Clock = std::chrono::steady_clock;

  std::function<double(std::int64_t)> lr_at_;
  std::int64_t step_;
  std::int64_t read_;  // of the optimizer's steps
  ProgressBar& bar_;
  void count(double loss, std::int64_t items);

  bool may_overflow_ = false;
  double weighted_ = 0;
  std::int64_t items_ = 0;
  std::int64_t overflowed_ = 0;  // of the items
  std::vector<Waiting> waiting_;
  Clock::time_point last_read_ = Clock::now();
};

}  // namespace sinter
