// Finds a learning rate to begin with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sinter/layers/module.h>
#include <sinter/training/captured_step.h>
#include <sinter/training/dataset.h>
#include <sinter/training/optimizers.h>

namespace sinter {

struct LrFinderOptions {
  double min_lr = 1e-7;
  double max_lr = 10.0;
  std::int64_t steps = 100;
  std::int64_t batch_size = 64;
  double smoothing = 0.9;          ///< of the losses' moving average, in [0, 1)
  double diverge_threshold = 4.0;  ///< the test ends where the loss is so many times its smallest
  std::optional<std::uint64_t> seed = std::nullopt;  ///< of the shuffling; else global_seed()
};

struct LrFinderResult {
  struct Point {
    double lr;
    double loss;  ///< before the step with this rate, smoothed
  };
  std::vector<Point> points;
  /// The rate at which the loss fell fastest by the logarithm of the rate (fastai's "steep",
  /// Lightning's suggestion()), the first tenth of the steps and the last point aside; none where
  /// it never fell, or after fewer than three points more.
  std::optional<double> suggestion;
};

/// The learning-rate range test of Smith, "Cyclical learning rates for training neural networks",
/// 2017: trains with rates that grow exponentially from min_lr to max_lr, and looks at the losses,
/// whose moving average is divided by 1 - smoothing^n as Adam's is. Afterwards weights, buffers,
/// the optimizer's state, steps and rate, the model's random numbers and its modes are what they
/// were, also where it throws. Groups keep the ratios of their rates. Gradients are dropped. Throws
/// Error for options out of range and what data set, model and loss throw.
LrFinderResult find_lr(Module& model, Loss loss, Optimizer& optimizer, const Dataset& data,
                       const LrFinderOptions& options = {});

}  // namespace sinter
