// Writes the checkpoints of a run and goes back to them. Internal to the Trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include <sinter/training/checkpoint.h>
#include <sinter/training/optimizers.h>
#include <sinter/training/stop_signals.h>

namespace sinter {

class Checkpointer {
 public:
  /// What it refers to must outlive it. Throws Error for options out of range.
  Checkpointer(const std::optional<CheckpointOptions>& options, Module& model,
               const Optimizer& optimizer, CheckpointParts parts);
  /// Waits as finish() does; what went wrong is logged.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  void resume(const std::filesystem::path& path);
  /// A step, or a graph of steps, that ends at `batch` of an epoch is followed by a checkpoint.
  bool is_due(std::int64_t batch) const;
  /// No more steps than this may be made at once from `batch` of an epoch on.
  std::int64_t steps_to_next(std::int64_t batch) const;
  bool is_due_after(std::int64_t epoch) const;
  /// The signal that asks the run to stop, or 0.
  int signal() const { return signals_ ? StopSignals::received() : 0; }

  /// A copy is taken now, and written while training goes on; of a write that failed the next call
  /// of any of these throws.
  void save(bool is_best = false);
  /// Waits until what was saved is on the disk.
  void finish();
  /// After a loss or weights that were not finite: loads the last checkpoint and returns what the
  /// learning rate is to be multiplied with. Throws `error`, with that checkpoint's name, where
  /// the run may not go back to it (any more).
  double roll_back(const NonFiniteError& error, std::int64_t roll_backs_so_far);

 private:
  std::filesystem::path beside(const std::string& word) const;
  void make_room() const;
  void write(const TensorFile& file, bool is_best) const;

  const CheckpointOptions* options_;  // null: the run was resumed, and writes none
  Module& model_;
  const Optimizer& optimizer_;
  CheckpointParts parts_;
  std::optional<StopSignals> signals_;
  std::filesystem::path path_;
  std::filesystem::path last_;  // good one, or none
  std::int64_t step_of_last_ = 0;
  double factor_ = 1;          // on the rate, since `last_`
  std::future<void> writing_;  // goes first, and waits
};

}  // namespace sinter
