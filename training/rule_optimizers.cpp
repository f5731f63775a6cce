#include <cmath>
#include <utility>

#include <sinter/kernels/ops.h>
#include <sinter/training/rule_optimizers.h>

namespace sinter {
namespace {

template <class Constants>
ops::RuleArgs rule_args(const ops::UpdateArgs<Constants>& args) {
  return {args.constants, args.live, args.skip};
}

// What NAdam and RAdam have in common at a step; the shares are theirs to fill in.
template <class Options>
math::MomentsRule<double> moments(const Options& o, double lr, double weight_decay,
                                  double correction2) {
  return {.one_minus_beta1 = 1 - o.beta1,
          .beta2 = o.beta2,
          .one_minus_beta2 = 1 - o.beta2,
          .of_gradient = 0,
          .of_mean = 0,
          .inverse_root = 1 / std::sqrt(correction2),
          .eps = o.eps,
          .weight_decay = o.decoupled ? 0 : weight_decay,
          .keep = o.decoupled ? 1 - lr * weight_decay : 1,
          .divides = true};
}

}  // namespace

RMSprop::RMSprop(ParameterGroups parameters, const RMSpropOptions& options)
    : Optimizer("RMSprop", std::move(parameters), options.lr,
                1 + (options.momentum > 0 ? 1 : 0) + (options.centered ? 1 : 0),
                options.weight_decay),
      options_(options) {
  check_range("alpha", options.alpha, 0, 1);
  check_range("eps", options.eps, 0, HUGE_VAL);
  check_range("momentum", options.momentum, 0, HUGE_VAL);
}

template <bool with_momentum, bool centred>
ops::RuleArgs RMSprop::args() {
  using Rule = math::RmspropRule<double, with_momentum, centred>;
  return rule_args(args_of_step<Rule>([o = options_](const StepOptions& now) {
    return Rule{now.lr, o.alpha, 1 - o.alpha, o.eps, now.weight_decay, o.momentum};
  }));
}

void RMSprop::update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) {
  const bool with_momentum = options_.momentum > 0;
  ops::rule_update(values, gradients, state,
                   options_.centered ? with_momentum ? args<true, true>() : args<false, true>()
                   : with_momentum ? args<true, false>()
                                     : args<false, false>());
}

Adagrad::Adagrad(ParameterGroups parameters, const AdagradOptions& options)
    : Optimizer("Adagrad", std::move(parameters), options.lr, 1, options.weight_decay),
      options_(options) {
  check_range("lr_decay", options.lr_decay, 0, HUGE_VAL);
  check_range("initial_accumulator_value", options.initial_accumulator_value, 0, HUGE_VAL);
  check_range("eps", options.eps, 0, HUGE_VAL);
}

void Adagrad::update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) {
  using Rule = math::AdagradRule<double>;
  ops::rule_update(values, gradients, state,
                   rule_args(args_of_step<Rule>([o = options_](const StepOptions& now) {
                     return Rule{now.lr / (1 + static_cast<double>(now.step - 1) * o.lr_decay),
                                 o.initial_accumulator_value, o.eps, now.weight_decay};
                   })));
}

NAdam::NAdam(ParameterGroups parameters, const NAdamOptions& options)
    : Optimizer("NAdam", std::move(parameters), options.lr, 2, options.weight_decay),
      options_(options) {
  check_range("beta1", options.beta1, 0, 1);
  check_range("beta2", options.beta2, 0, 1);
  check_range("eps", options.eps, 0, HUGE_VAL);
  check_range("momentum_decay", options.momentum_decay, 0, HUGE_VAL);
}

double NAdam::momentum_at(std::int64_t step) const {
  const double warmth = std::pow(0.96, static_cast<double>(step) * options_.momentum_decay);
  return options_.beta1 * (1 - 0.5 * warmth);
}

double NAdam::product_to(std::int64_t step) {
  while (static_cast<std::int64_t>(products_.size()) <= step) {
    products_.push_back(products_.back() *
                        momentum_at(static_cast<std::int64_t>(products_.size())));
  }
  return products_[static_cast<std::size_t>(step)];
}

void NAdam::update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) {
  using Rule = math::MomentsRule<double>;
  ops::rule_update(values, gradients, state,
                   rule_args(args_of_step<Rule>([this](const StepOptions& now) {
                     const auto [step, lr, weight_decay] = now;
                     Rule rule = moments(options_, lr, weight_decay,
                                         1 - std::pow(options_.beta2, static_cast<double>(step)));
                     rule.of_gradient = lr * (1 - momentum_at(step)) / (1 - product_to(step));
                     rule.of_mean = lr * momentum_at(step + 1) / (1 - product_to(step + 1));
                     return rule;
                   })));
}

RAdam::RAdam(ParameterGroups parameters, const RAdamOptions& options)
    : Optimizer("RAdam", std::move(parameters), options.lr, 2, options.weight_decay),
      options_(options) {
  check_range("beta1", options.beta1, 0, 1);
  check_range("beta2", options.beta2, 0, 1);
  check_range("eps", options.eps, 0, HUGE_VAL);
}

void RAdam::update(Tensor& values, const Tensor& gradients, std::vector<Tensor>& state) {
  using Rule = math::MomentsRule<double>;
  ops::rule_update(values, gradients, state,
                   rule_args(args_of_step<Rule>([o = options_](const StepOptions& now) {
                     const auto t = static_cast<double>(now.step);
                     const double power = std::pow(o.beta2, t), correction2 = 1 - power;
                     const double limit = 2 / (1 - o.beta2) - 1;
                     const double length = limit - 2 * t * power / correction2;
                     Rule rule = moments(o, now.lr, now.weight_decay, correction2);
                     rule.of_mean = now.lr / (1 - std::pow(o.beta1, t));
                     // Before so many steps the variance of the square is not to be trusted.
                     rule.divides = length > 5;
                     if (rule.divides) {
                       // torch adds eps to the root of the square as it is.
                       rule.of_mean *=
                           std::sqrt((length - 4) * (length - 2) * limit /
                                     ((limit - 4) * (limit - 2) * length) * correction2);
                       rule.inverse_root = 1;
                     }
                     return rule;
                   })));
}

}  // namespace sinter
