// What a part of a run keeps from step to step, named one by one, so that a checkpoint can hold it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter {

/// Visits what a part keeps; see Stateful::visit_state. One visit writes it, another one looks
/// whether what was read fits, a third one replaces it.
class StateVisitor {
 public:
  using Limits = std::numeric_limits<std::int64_t>;
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  virtual ~StateVisitor() = default;
  /// A number that lies in [least, most]; NaN does not.
  virtual void number(std::string_view name, std::int64_t& value,
                      std::int64_t least = Limits::min(), std::int64_t most = Limits::max()) = 0;
  virtual void number(std::string_view name, double& value, double least = -infinity,
                      double most = infinity) = 0;
  /// Any number of rows of so many columns, one row after the other.
  virtual void rows(std::string_view name, std::vector<double>& values, std::int64_t columns) = 0;
  /// Elements that are replaced in place: their shape and type stay.
  virtual void tensor(std::string_view name, const Tensor& values) = 0;
};

/// A part of a run that a checkpoint can hold: an optimizer, a GradScaler, one of your own.
///
///   struct Mean : Stateful {
///     double value = 0;
///     void visit_state(StateVisitor& v) override { v.number("value", value); }
///   };
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// Names everything that the next step depends on, each under a name of its own. It must do so
  /// without looking at the values: they may be about to be replaced.
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// What it is and how it is set: a checkpoint is not loaded into a part that differs in it.
  virtual std::string text() const { return {}; }
};

/// How far a loop of one's own is, for DataLoader::set_epoch(epoch, batch):
///
///   for (; at.epoch < 5; at = LoopPosition(at.epoch + 1)) {
///     loader.set_epoch(at.epoch, at.batch);
///     for (const auto& [inputs, targets] : loader) { ...; ++at.batch; }
///   }
class LoopPosition : public Stateful {
 public:
  explicit LoopPosition(std::int64_t of_epoch = 0, std::int64_t of_batch = 0)
      : epoch(of_epoch), batch(of_batch) {}
  void visit_state(StateVisitor& v) override {
    v.number("epoch", epoch, 0);
    v.number("batch", batch, 0);
  }

  std::int64_t epoch;  ///< under way, counted from 0
  std::int64_t batch;  ///< of it, the next one
};

}  // namespace sinter
