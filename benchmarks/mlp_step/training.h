// A task under way on a device, through the public API: its data lie there, its model is trained in
// calls of many steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tasks.h"
#include <sinter/autograd/autocast.h>
#include <sinter/layers/sequential.h>
#include <sinter/runtime/device.h>
#include <sinter/training/captured_step.h>
#include <sinter/training/dataset.h>
#include <sinter/training/optimizers.h>

namespace bench {

struct StepSettings {
  sinter::Device device;
  std::int64_t steps_per_graph = 64;
  bool eager = false;     ///< no graphs
  bool autocast = false;  ///< 16-bit tasks: products in that type, parameters in float32
  int runs = 5;
};

class Training {
 public:
  Training(const StepTask& task, const StepSettings& settings);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// The next steps_per_graph steps, on items in shuffled order as the Trainer takes them; their
  /// losses, on the device.
  sinter::Tensor advance();
  /// Until everything that is done once is done: tuning, capture, memory.
  void warm_up();
  /// The loss of the very first step, once warm.
  double first_loss() const { return first_loss_; }
  bool replays() const { return step_.replayed() > 0; }
  /// Throws Error where a replayed step met a bad label.
  void check() { step_.check(); }
  /// The most memory that the device gave at a time, without the data set.
  std::size_t peak_bytes() const;

 private:
  StepTask task_;
  StepSettings settings_;
  sinter::TensorDataset data_;
  std::size_t bytes_before_;
  std::optional<sinter::Autocast> scope_;
  sinter::Sequential model_;
  std::unique_ptr<sinter::Optimizer> optimizer_;
  sinter::CapturedStep step_;
  std::vector<std::int64_t> order_;  // of some epochs
  std::size_t at_ = 0;
  double first_loss_ = 0;
};

/// What came out of a task.
struct StepResult {
  double us = 0;                  ///< a step: the median of the runs
  std::vector<double> runs = {};  ///< us a step
  bool replayed = false;          ///< from graphs
  double first_loss = 0;
  double last_loss = 0;  ///< the mean of the last call's
  std::size_t peak_bytes = 0;
  std::string problem = "";  ///< why it does not count; empty where it does
};

/// Runs of at least 100 steps and 50 ms on the device's own clock.
StepResult time_steps(const StepTask& task, const StepSettings& settings);

}  // namespace bench
