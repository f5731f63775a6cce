// SGD, Adam and AdamW over the flat parameters of a model, with PyTorch's definitions and defaults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinter/kernels/math/optimizers.h>
#include <sinter/kernels/ops.h>
#include <sinter/layers/parameter.h>
#include <sinter/training/flat_state.h>
#include <sinter/training/parameter_groups.h>
#include <sinter/training/state.h>

namespace sinter {

/// Changes parameters by their gradients. It holds on to the model's parameters, which may move to
/// another device or type in between; its own state follows.
class Optimizer : public Stateful {
 public:
  Optimizer(const Optimizer&) = delete;  // two would share their state
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update, which consumes the gradients: the next backward overwrites them. Parameters
  /// without a gradient since the last step stay as they are. Throws Error where none has one.
  void step();
  /// step(), in a graph under recording, of which the device may leave out a replay: GradScaler's.
  void step_unless(const ops::SkipArgs& skip);
  /// What step() does but for the update: state is made where there was none, so that a graph does
  /// not have to, and the gradients are consumed.
  void skip_step();
  /// So many of the steps counted so far turned out to have been left out.
  void uncount_steps(std::int64_t count);
  /// Drops the gradients unused: torch's zero_grad, not needed after step().
  void clear_gradients();

  double lr() const { return lr_; }
  /// Groups with a rate of their own keep its ratio to this one, so a schedule multiplies the rates
  /// of all. Throws Error unless lr is finite and at least 0.
  void set_lr(double lr);
  /// The rates of the steps that the next replay of a graph makes, one for each; used once. The
  /// last becomes lr(). Without them all steps of a replay take lr(). Throws Error as
  /// set_lr() does.
  void set_coming_lrs(std::vector<double> lrs);
  /// Updates made so far.
  std::int64_t steps() const { return steps_; }
  /// Of all groups, one after the other.
  const Parameters& parameters() const { return parameters_; }
  /// Momentum and the like, each laid out as the parameters are; undefined before the first step.
  const std::vector<Tensor>& state() const { return state_.tensors(); }
  /// Rate, steps, groups, and the state of each parameter, by its name.
  void visit_state(StateVisitor& visitor) override;
  /// "Adam(beta1=0.9, ...)", all options but the rate; one of your own may say just its name.
  std::string text() const override { return name_; }

  // Groups, counted from 0 in the order in which they were given. What is set here holds from the
  // next step on, in a recorded graph too. Each throws Error for a group that does not exist.

  std::size_t group_count() const { return groups_.size(); }
  /// lr() times lr_scale(group), which is 1 unless the group was given a rate of its own.
  double lr(std::size_t group) const;
  double lr_scale(std::size_t group) const;
  double weight_decay(std::size_t group) const;
  /// Throws Error unless finite and at least 0.
  void set_lr_scale(std::size_t group, double scale);
  /// Likewise, and for an optimizer that knows no weight decay.
  void set_weight_decay(std::size_t group, double weight_decay);

 protected:
  /// What the constants of an update depend on.
  struct StepOptions {
    std::int64_t step;  ///< counted from 1
    double lr;
    double weight_decay;
  };

  /// `state_count` tensors of state for each parameter, zero at first. All parameters must have one
  /// type and device. `weight_decay`: none where the optimizer knows no such thing. Throws Error
  /// for a group without parameters, a parameter given twice, and options out of range.
  Optimizer(std::string name, ParameterGroups groups, double lr, int state_count,
            std::optional<double> weight_decay = std::nullopt);
  /// Updates a row of parameters that lie side by side; state[k] are the matching rows.
  virtual void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) = 0;
  /// The same for the parameters of Linears, by the gradients dy^T x and the sums of dy: see
  /// ops::linears_sgd_update.
  virtual void update_linears(const std::vector<Tensor>& dy, const std::vector<Tensor>& x,
                              std::vector<Tensor>& weights, std::vector<Tensor>& biases,
                              std::vector<Tensor>& weight_state, std::vector<Tensor>& bias_state);
  /// Whether it can.
  virtual bool updates_linears() const { return false; }
  /// What an op wants for the step under way and the group that is updated: constants(options), or,
  /// in a graph under recording, where each replay finds those of its own step.
  template <class Constants>
  ops::UpdateArgs<Constants> args_of_step(
      std::function<Constants(const StepOptions& options)> constants) {
    const Constants now = constants(options_at(steps_, lr_, group_));
    using Narrowed = decltype(math::narrowed(now));
    return {now,
            live_constants(sizeof(Narrowed),
                           [constants = std::move(constants)](const StepOptions& options,
                                                              std::span<std::byte> to) {
                             const Narrowed narrow = math::narrowed(constants(options));
                             std::memcpy(to.data(), &narrow, sizeof narrow);
                           }),
            skip_};
  }

  const std::string& name() const { return name_; }
  /// Throws Error unless low <= value < high.
  void check_range(const char* what, double value, double low, double high) const;

 private:
  struct Group {
    std::size_t last;  // of its parameters, one past it
    double lr_scale;
    double weight_decay;
  };
  using WriteConstants = std::function<void(const StepOptions& options, std::span<std::byte> to)>;
  Tensor live_constants(std::size_t bytes, WriteConstants write);
  StepOptions options_at(std::int64_t step, double lr, std::size_t group) const {
    return {step, lr * groups_[group].lr_scale, groups_[group].weight_decay};
  }
  const Group& group_at(std::size_t group) const;
  void update_run(const GradientRun& run);
  bool is_laid_out() const;
  void follow_parameters();
  void count_step();
  /// The step in which the gradients of all parameters are those that one backward put off.
  bool step_deferred();
  /// Index among the parameters, or parameters().size().
  std::size_t index_of(const std::shared_ptr<Leaf>& leaf) const;

  std::string name_;
  Parameters parameters_;
  std::vector<Group> groups_;
  bool has_weight_decay_;
  double lr_;
  FlatState state_;
  std::int64_t steps_ = 0;
  std::size_t group_ = 0;  // that is updated
  std::vector<double> coming_lrs_;
  ops::SkipArgs skip_;  // of the step under way
};

using SGDOptions = math::SgdOptions;  ///< lr, momentum, dampening, weight_decay, nesterov

/// Stochastic gradient descent (Sutskever et al., "On the importance of initialization and momentum
/// in deep learning", 2013, for the momentum forms).
class SGD : public Optimizer {
 public:
  /// Throws Error for options out of range; nesterov needs momentum and no dampening.
  explicit SGD(ParameterGroups parameters, const SGDOptions& options = {});
  std::string text() const override;

 private:
  void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) override;
  void update_linears(const std::vector<Tensor>& dy, const std::vector<Tensor>& x,
                      std::vector<Tensor>& weights, std::vector<Tensor>& biases,
                      std::vector<Tensor>& weight_state, std::vector<Tensor>& bias_state) override;
  bool updates_linears() const override { return true; }
  ops::SgdArgs args();

  SGDOptions options_;
};

/// lr, beta1, beta2, eps, weight_decay (L2, or AdamW's where `decoupled`), amsgrad
using AdamOptions = math::AdamOptions;

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  ///< decoupled: taken from the parameter itself, times lr
  bool amsgrad = false;        ///< by the largest square so far
};

/// Kingma and Ba, "Adam: a method for stochastic optimization", 2015.
class Adam : public Optimizer {
 public:
  /// Throws Error for options out of range.
  explicit Adam(ParameterGroups parameters, const AdamOptions& options = {});
  std::string text() const override;

 protected:
  Adam(std::string name, ParameterGroups parameters, const AdamOptions& options);

 private:
  void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) override;
  void update_linears(const std::vector<Tensor>& dy, const std::vector<Tensor>& x,
                      std::vector<Tensor>& weights, std::vector<Tensor>& biases,
                      std::vector<Tensor>& weight_state, std::vector<Tensor>& bias_state) override;
  bool updates_linears() const override;
  ops::AdamArgs args();

  AdamOptions options_;
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
class AdamW : public Adam {
 public:
  /// Throws Error for options out of range.
  explicit AdamW(ParameterGroups parameters, const AdamWOptions& options = {});
};

}  // namespace sinter
