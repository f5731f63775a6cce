// Ends a run that no longer gets better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/layers/module.h>
#include <sinter/training/state.h>
#include <sinter/training/weights_copy.h>

namespace sinter {

struct EarlyStoppingOptions {
  bool maximise = false;      ///< the larger metric is the better one
  std::int64_t patience = 3;  ///< metrics in a row that are no better, with which a run ends
  double min_delta = 0.0;     ///< by how much more than this is better
  bool restore_best = false;  ///< the weights of the best metric are kept, for restore_best()
};

/// Lightning's and Keras's EarlyStopping:
///
///     EarlyStopping stopping(model, {.patience = 5, .restore_best = true});
///     trainer.fit(data, {.validation = &unseen, .on_epoch = [&](const EpochReport& report) {
///       return stopping.step(report.validation->loss);
///     }});
///     stopping.restore_best();
class EarlyStopping : public Stateful {
 public:
  /// The model must outlive it. Throws Error for a patience below 1 and a min_delta that is not
  /// finite and at least 0.
  explicit EarlyStopping(Module& model, const EarlyStoppingOptions& options = {});
  /// The metric of an epoch; NaN is no better than any. False: the run is to end.
  bool step(double metric);
  /// Puts back the weights and buffers of the best metric, if they are kept and there was one.
  void restore_best();
  /// Forgets all metrics, for another run.
  void reset();

  /// Whether the latest metric was to end the run.
  bool stopped() const { return bad_ >= options_.patience; }
  bool maximises() const { return options_.maximise; }
  void visit_state(StateVisitor& visitor) override;
  std::string text() const override;
  const Module& model() const { return model_; }

 private:
  Module& model_;
  EarlyStoppingOptions options_;
  double best_;           // an infinity before the first metric
  std::int64_t bad_ = 0;  // metrics since the best one
  std::optional<WeightsCopy> weights_;
};

}  // namespace sinter
