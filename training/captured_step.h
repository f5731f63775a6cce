// A training step that a GPU repeats without the host: recorded as a graph at its second call,
// replayed from then on.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinter/layers/module.h>
#include <sinter/training/dataset.h>
#include <sinter/training/grad_scaler.h>
#include <sinter/training/optimizers.h>

namespace sinter {

class EMA;
class Graph;
class Tape;

/// loss(output of the model, targets): a scalar that is a mean over the batch.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& targets)>;

/// Forward, loss, backward and update:
///
///     CapturedStep step(model, CrossEntropyLoss{}, optimizer);
///     for (const Batch& batch : loader) { Tensor loss = step(batch); }
///
/// The first call for a kind of batch runs eagerly, the second is recorded. A kind is: shapes and
/// types, the model's text() with train or eval mode of each module, its generator, where
/// parameters and optimizer state lie and which are trained, the precision of products, and the
/// type of the Autocast scope that the call is made in;
/// whatever of it changes, nothing stale is replayed. A module of one's own has to show in text()
/// all that its forward pass depends on, or reset() has to be called when it changes; so has a
/// loss. A call that finds gradients left by a backward of one's own adds to them, eagerly.
/// Replayed steps give the bits that eager ones give. On the CPU, and where something in the step
/// cannot be recorded (an op without a kernel, a number read on the host), every call runs eagerly;
/// said once.
class CapturedStep {
 public:
  /// Model and optimizer must outlive it. Throws Error for an empty loss.
  CapturedStep(Module& model, Loss loss, Optimizer& optimizer);
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  /// One step; the loss as a tensor on the device, which later steps leave alone.
  Tensor operator()(const Batch& batch);
  /// A step for each `batch_size` of `order`, items of a data set that lies on the model's device
  /// (Dataset::on), in one graph; with `lrs`, a learning rate for each step. The losses [steps].
  /// Throws Error for items that are no whole number of batches or not in the data set.
  Tensor operator()(const Dataset& resident, std::span<const std::int64_t> order,
                    std::int64_t batch_size, std::span<const double> lrs = {});

  using Look = std::function<void(double loss)>;
  /// One step that is not recorded, whose loss `look` sees before it has changed anything; what it
  /// throws ends the step. Of micro-batches it sees each one's. The loss.
  double eager(const Batch& batch, const Look& look);

  /// Waits for the steps so far. Throws Error where a replayed one met a bad label, as an eager
  /// step would have at once: since then no replayed step has changed anything.
  void check();
  /// Forgets what was recorded.
  void reset();
  /// Whether calls are recorded from now on. They are where the device can, and no DetectAnomaly
  /// scope is open.
  void set_capture(bool on);
  bool captures() const;
  /// Gradients are held to this norm before each update, as clip_grad_norm() does; not where it is
  /// unset. Throws Error unless it is above 0.
  void set_max_grad_norm(std::optional<double> max_norm);
  /// Each element of the gradients is held within this bound before each update, as
  /// clip_grad_value() does, and before their norm is. Likewise.
  void set_max_grad_value(std::optional<double> max_value);
  /// Gradient accumulation: a batch is gone through in pieces of so many rows, the last of which
  /// may have fewer, and their gradients are added up for one update, each by its share of the
  /// rows. So loss and update are those of the whole batch, but for what a piece draws (a dropout's
  /// step is one piece) and sees (a batch norm's statistics are a piece's), and memory is taken for
  /// one piece at a time. Unset: the whole batch at once. Throws Error unless it is above 0.
  void set_micro_batch(std::optional<std::int64_t> rows);
  /// Averages that follow each update; null: none. They must outlive this.
  void set_ema(EMA* ema) { ema_ = ema; }
  /// The loss is scaled by it and its step taken in place of the optimizer's; null: not so. It must
  /// outlive this.
  void set_grad_scaler(GradScaler* scaler) { scaler_ = scaler; }
  /// Steps that were replayed.
  std::int64_t replayed() const { return replayed_; }

 private:
  struct Recorded {
    std::string kind;
    std::unique_ptr<Graph> graph;  ///< null until the second call
    Batch slots;                   ///< where a replay finds its batch
    Tensor losses;
    std::vector<Tensor> kept;  ///< what the graph writes to beside values and its own memory
  };

  Tensor loss_of(const Batch& batch);
  Tensor step(const Batch& batch, const Look* look = nullptr);
  Tensor backward(std::optional<Tape>& tape, const Batch& batch, const Look* look);
  void update();
  Device device() const;
  bool has_gradients() const;
  std::string kind(const std::string& of_batch);
  /// Replays what was recorded for this kind of call, records it, or runs `eagerly`.
  Tensor run(const std::string& of_batch, std::int64_t steps,
             const std::function<Tensor()>& eagerly, const std::function<void(Recorded&)>& prepare,
             const std::function<Tensor(Recorded&)>& body);
  /// Items first to first + count - 1 of the order, for a graph under recording.
  Batch gathered(const Dataset& resident, std::int64_t first, std::int64_t count);
  void stay_eager(const std::string& why);

  Module& model_;
  Loss loss_;
  Optimizer& optimizer_;
  bool capture_ = true;
  std::string said_;  // why steps are not recorded
  std::optional<double> max_grad_norm_, max_grad_value_;
  std::optional<std::int64_t> micro_batch_;
  EMA* ema_ = nullptr;
  GradScaler* scaler_ = nullptr;
  Tensor fault_;  // of all graphs
  std::int64_t replayed_ = 0;
  std::list<Recorded> recorded_;     // the latest first
  std::vector<std::int64_t> order_;  // of the replay under way
};

}  // namespace sinter
