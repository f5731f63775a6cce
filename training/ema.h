// An exponential moving average of a model's weights.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/layers/module.h>
#include <sinter/training/flat_state.h>
#include <sinter/training/state.h>
#include <sinter/training/weights_copy.h>

namespace sinter {

struct EMAOptions {
  double decay = 0.999;
  /// The decay of update n, counted from 0, is at most (1 + n) / (10 + n), so that an average of
  /// few weights is not mostly the first of them; as tf.train.ExponentialMovingAverage has it.
  bool warm_up = false;
};

/// average = decay * average + (1 - decay) * weights, after each step; the first update copies the
/// weights. torch's AveragedModel with get_ema_multi_avg_fn(decay): buffers are not averaged.
///
///     EMA ema(model);
///     trainer.fit(data, {.validation = &unseen, .ema = &ema});  // validates the averages
///     ema.copy_to(model);
///
/// By hand, update() comes after optimizer.step(). Averages of 16-bit weights are float32, in which
/// small changes are not lost. They follow a model that moves.
class EMA : public Stateful {
 public:
  /// The model must outlive it. Throws Error for a decay outside [0, 1), and unless all parameters
  /// are of one type and device.
  explicit EMA(Module& model, const EMAOptions& options = {});
  EMA(const EMA&) = delete;  // recorded steps write to this one's averages
  EMA& operator=(const EMA&) = delete;

  /// One pass over the weights; a graph can hold it.
  void update();
  std::int64_t updates() const { return updates_; }

  /// While it lives, the model has the averages for weights, for evaluation.
  class Applied {
   public:
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    friend class EMA;
    explicit Applied(EMA& ema);
    WeightsCopy weights_;
  };
  /// Throws Error where there was no update yet.
  [[nodiscard]] Applied apply() { return Applied(*this); }
  /// Makes the averages the weights of `model`, which may be the one that is averaged or one with
  /// the same parameters, which then receives the buffers too. Throws Error for another, and where
  /// there was no update yet.
  void copy_to(Module& model);

  /// The averages by the names of the parameters, for a file; the tensors share their elements.
  Buffers averages();
  void visit_state(StateVisitor& visitor) override;
  std::string text() const override;
  const Module& model() const { return model_; }
  /// All averages in one: what a recorded step writes to.
  const Tensor& state() const { return state_.tensors().front(); }

 private:
  void follow();
  void check_updated() const;
  /// Of the weights, at update n.
  double share(std::int64_t n) const;

  Module& model_;
  EMAOptions options_;
  Parameters parameters_;
  FlatState state_{1, true};
  std::int64_t updates_ = 0;
};

}  // namespace sinter
