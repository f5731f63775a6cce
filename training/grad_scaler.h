// A loss scale that keeps float16 gradients above the smallest numbers and below the largest.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <sinter/kernels/ops.h>
#include <sinter/training/optimizers.h>

namespace sinter {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;             ///< of the scale, after
  std::int64_t growth_interval = 2000;  ///< so many steps without an overflow
  double backoff_factor = 0.5;          ///< of the scale, after an overflow
};

/// torch.amp.GradScaler. A step whose gradients hold an infinity or a NaN is left out, and the
/// scale becomes smaller:
///
///     tape.backward(scaler.scale(loss));
///     scaler.step(optimizer);
///     scaler.update();
///
/// Scale and counts are on the parameters' device, so a captured graph can hold all three. An
/// optimizer's own count, on which Adam's corrections depend, leaves out what was left out.
class GradScaler : public Stateful {
 public:
  /// Throws Error for options out of range.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;  // recorded steps write to this one's state
  GradScaler& operator=(const GradScaler&) = delete;

  /// loss times the scale, in float32. Throws Error for float64, which needs none.
  Tensor scale(const Tensor& loss);
  /// Divides the gradients by the scale, and holds them to `max_norm` as clip_grad_norm() does;
  /// step() does the former by itself. Throws Error where it was done since the last update(), for
  /// this optimizer or another (each takes a scaler of its own), where no loss was scaled since,
  /// and unless parameters are float32.
  void unscale(Optimizer& optimizer, double max_norm = std::numeric_limits<double>::infinity());
  /// optimizer.step(), or nothing but clearing the gradients where one is not finite. Throws Error
  /// where it was done since the last update().
  void step(Optimizer& optimizer);
  /// Makes the scale larger or smaller by what step() has found. Throws Error without one before.
  void update();

  /// What losses are multiplied by, once the device has done all that it was given.
  double scale_factor() const;
  /// Steps left out so far, likewise.
  std::int64_t skipped() const;
  /// Tells the optimizer of what replays have left out. To be called before each replay of a graph
  /// that holds a step: CapturedStep does.
  void settle(Optimizer& optimizer);
  /// Whether there was a loss yet, on whose device the state is.
  bool is_placed() const { return scale_.defined(); }
  /// What a recorded step writes to: scale and counts.
  std::vector<Tensor> state() const { return {scale_, clean_, skipped_, found_}; }
  /// Scale and counts, as they are between update() and scale(). After settle(), where steps are
  /// replayed.
  void visit_state(StateVisitor& visitor) override;
  std::string text() const override;

 private:
  void place(Device device);

  ops::ScaleUpdateArgs args_;
  double init_scale_;
  Tensor scale_;                         // float32 []
  Tensor clean_, skipped_;               // int64 []
  Tensor found_;                         // int32 []
  std::int64_t known_ = 0;               // of those skipped, such as the optimizer was told of
  const Optimizer* unscaled_ = nullptr;  // whose gradients are
  bool is_scaled_ = false;               // a loss was, since the last update()
  bool stepped_ = false;
};

}  // namespace sinter
