// Optimizers beside SGD and Adam, with PyTorch's definitions and defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinter/training/optimizers.h>

namespace sinter {

struct RMSpropOptions {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
};

/// Tieleman and Hinton, "Lecture 6.5: rmsprop", 2012.
class RMSprop : public Optimizer {
 public:
  /// Throws Error for options out of range.
  explicit RMSprop(ParameterGroups parameters, const RMSpropOptions& options = {});
  std::string text() const override;

 private:
  void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) override;
  template <bool with_momentum, bool centred>
  ops::RuleArgs args();

  RMSpropOptions options_;
};

struct AdagradOptions {
  double lr = 0.01;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
};

/// Duchi, Hazan and Singer, "Adaptive subgradient methods", 2011.
class Adagrad : public Optimizer {
 public:
  /// Throws Error for options out of range.
  explicit Adagrad(ParameterGroups parameters, const AdagradOptions& options = {});
  std::string text() const override;

 private:
  void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) override;

  AdagradOptions options_;
};

struct NAdamOptions {
  double lr = 0.002;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum_decay = 0.004;
  bool decoupled = false;  ///< weight decay is taken from the parameter itself, times lr
};

/// Dozat, "Incorporating Nesterov momentum into Adam", 2016.
class NAdam : public Optimizer {
 public:
  /// Throws Error for options out of range.
  explicit NAdam(ParameterGroups parameters, const NAdamOptions& options = {});
  std::string text() const override;

 private:
  void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) override;
  double momentum_at(std::int64_t step) const;
  /// The product of the momenta of steps 1 to `step`.
  double product_to(std::int64_t step);

  NAdamOptions options_;
  std::vector<double> products_{1.0};
};

struct RAdamOptions {
  double lr = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  ///< weight decay is taken from the parameter itself, times lr
};

/// Liu et al., "On the variance of the adaptive learning rate and beyond", 2020.
class RAdam : public Optimizer {
 public:
  /// Throws Error for options out of range.
  explicit RAdam(ParameterGroups parameters, const RAdamOptions& options = {});
  std::string text() const override;

 private:
  void update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) override;

  RAdamOptions options_;
};

}  // namespace sinter
