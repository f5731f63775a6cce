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

/// Throws NonFiniteError for such a loss, naming the optimizer's step and learning rate.
void check_loss(double loss, std::int64_t step, double lr);

struct EpochSums {
  double loss = 0;  ///< of the items, without those that overflowed
  std::int64_t items = 0;
  std::int64_t overflowed = 0;  ///< of the items
};

/// Losses that a device has yet to compute are read now and then only, so that it need not wait for
/// the host.
class EpochRun {
 public:
  /// `lr_at` gives the learning rate of a step of the whole run. The epoch began at `first_step` of
  /// it, and goes on at its `batch` with `sums` and at `optimizer_step` of the optimizer's life.
  EpochRun(std::function<double(std::int64_t step)> lr_at, std::int64_t first_step,
           std::int64_t batch, const EpochSums& sums, std::int64_t optimizer_step, ProgressBar& bar)
      : lr_at_(std::move(lr_at)),
        first_step_(first_step),
        batch_(batch),
        sums_(sums),
        read_(optimizer_step),
        bar_(bar) {}

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

  /// Makes room on the terminal.
  void clear_bar() { bar_.clear(); }
  /// Batches of the epoch so far.
  std::int64_t batch() const { return batch_; }
  /// Of those that were read.
  const EpochSums& sums() const { return sums_; }
  /// The mean over the items.
  double loss() const { return sums_.loss / static_cast<double>(sums_.items - sums_.overflowed); }

 private:
  struct Waiting {
    Tensor losses;
    std::int64_t items_each;
    std::vector<double> lrs;
  };
  using Clock = std::chrono::steady_clock;

  std::function<double(std::int64_t)> lr_at_;
  std::int64_t first_step_;
  std::int64_t batch_;
  EpochSums sums_;
  std::int64_t read_;  // of the optimizer's steps
  ProgressBar& bar_;
  void count(double loss, std::int64_t items);

  bool may_overflow_ = false;
  std::vector<Waiting> waiting_;
  Clock::time_point last_read_ = Clock::now();
};

}  // namespace sinter
