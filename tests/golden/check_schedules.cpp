// Learning-rate schedules: the rate at each step.
#include "checks.h"
#include <sinter/training/schedules.h>

namespace golden {
namespace {

sinter::Schedule schedule(const std::string& name, Arguments& args) {
  const auto whole = [&](const char* what) { return args.get<std::int64_t>(what); };
  const auto number = [&](const char* what) { return args.get<double>(what); };
  if (name == "StepLR") {
    return sinter::step_lr(whole("step_size"), number("gamma"));
  }
  if (name == "MultiStepLR") {
    return sinter::multi_step_lr(args.get<std::vector<std::int64_t>>("milestones"),
                                 number("gamma"));
  }
  if (name == "ExponentialLR") {
    return sinter::exponential_lr(number("gamma"));
  }
  if (name == "CosineAnnealingLR") {
    return sinter::cosine_annealing_lr(whole("T_max"), number("eta_min"));
  }
  if (name == "LinearLR") {
    return sinter::linear_lr(number("start_factor"), number("end_factor"), whole("total_iters"));
  }
  if (name == "PolynomialLR") {
    return sinter::polynomial_lr(whole("total_iters"), number("power"));
  }
  if (name == "CosineAnnealingWarmRestarts") {
    return sinter::cosine_annealing_warm_restarts(whole("T_0"), whole("T_mult"));
  }
  sinter::check(name == "OneCycleLR", "there is no schedule ", name);
  return sinter::one_cycle_lr(number("max_lr"), whole("total_steps"), {},
                              sinter::SchedulePer::epoch);
}

}  // namespace

void check_schedule(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  const auto base_lr = args.get<double>("base_lr");
  const sinter::Schedule factor = schedule(c.op, args);
  args.require_all_read();
  std::vector<double> rates;
  for (std::int64_t epoch = 0; epoch < c.tensor("lr").numel(); ++epoch) {
    rates.push_back(base_lr * factor({.epoch = epoch, .base_lr = base_lr}));
  }
  const auto lr = sinter::Tensor::from(rates, {static_cast<std::int64_t>(rates.size())});
  report.compare("lr", lr.to(setup.dtype), layer_limit(setup.dtype));
}

}  // namespace golden
