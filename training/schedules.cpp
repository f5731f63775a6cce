#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <sinter/layers/text_form.h>
#include <sinter/runtime/error.h>
#include <sinter/training/schedules.h>

namespace sinter {
namespace {

double count(const TrainingTime& time, SchedulePer per) {
  return static_cast<double>(per == SchedulePer::step ? time.step : time.epoch);
}

// From `from` to `to` along half a cosine, at a share of the way.
double half_cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

// The factor for a schedule that says what the rate itself is.
double factor_for(const char* who, double lr, const TrainingTime& time) {
  check(time.base_lr > 0, who,
        ": it gives rates of its own, so the optimizer's lr must be above 0");
  return lr / time.base_lr;
}

void check_count(const char* who, const char* what, std::int64_t value) {
  check(value >= 1, who, ": ", what, " must be at least 1, got ", value);
}

void check_rate(const char* who, const char* what, double value) {
  check(std::isfinite(value) && value >= 0, who, ": ", what, " must be finite and at least 0, got ",
        value);
}

}  // namespace

Schedule cosine(double warmup, double final) {
  check(warmup >= 0 && warmup < 1, "cosine: warmup must lie in [0, 1), got ", warmup);
  check_rate("cosine", "final", final);
  return [warmup, final](double progress) {
    if (progress < warmup) {
      return progress / warmup;
    }
    return half_cosine(1, final, (progress - warmup) / (1 - warmup));
  };
}

Schedule step_lr(std::int64_t step_size, double gamma, SchedulePer per) {
  check_count("step_lr", "step_size", step_size);
  check_rate("step_lr", "gamma", gamma);
  return [=](const TrainingTime& time) {
    return std::pow(gamma, std::floor(count(time, per) / static_cast<double>(step_size)));
  };
}

Schedule multi_step_lr(std::vector<std::int64_t> milestones, double gamma, SchedulePer per) {
  check_rate("multi_step_lr", "gamma", gamma);
  for (const std::int64_t milestone : milestones) {
    check_count("multi_step_lr", "a milestone", milestone);
  }
  return [milestones = std::move(milestones), gamma, per](const TrainingTime& time) {
    const auto passed = std::ranges::count_if(milestones, [&](std::int64_t milestone) {
      return static_cast<double>(milestone) <= count(time, per);
    });
    return std::pow(gamma, static_cast<double>(passed));
  };
}

Schedule exponential_lr(double gamma, SchedulePer per) {
  check_rate("exponential_lr", "gamma", gamma);
  return [=](const TrainingTime& time) { return std::pow(gamma, count(time, per)); };
}

Schedule linear_lr(double start_factor, double end_factor, std::int64_t total_iters,
                   SchedulePer per) {
  check_rate("linear_lr", "start_factor", start_factor);
  check_rate("linear_lr", "end_factor", end_factor);
  check_count("linear_lr", "total_iters", total_iters);
  return [=](const TrainingTime& time) {
    const double share = std::min(1.0, count(time, per) / static_cast<double>(total_iters));
    return start_factor + (end_factor - start_factor) * share;
  };
}

Schedule polynomial_lr(std::int64_t total_iters, double power, SchedulePer per) {
  check_count("polynomial_lr", "total_iters", total_iters);
  check_rate("polynomial_lr", "power", power);
  return [=](const TrainingTime& time) {
    const double share = std::min(1.0, count(time, per) / static_cast<double>(total_iters));
    return std::pow(1 - share, power);
  };
}

Schedule cosine_annealing_lr(std::int64_t t_max, double eta_min, SchedulePer per) {
  check_count("cosine_annealing_lr", "t_max", t_max);
  check_rate("cosine_annealing_lr", "eta_min", eta_min);
  return [=](const TrainingTime& time) {
    const double share = count(time, per) / static_cast<double>(t_max);
    return factor_for("cosine_annealing_lr", half_cosine(time.base_lr, eta_min, share), time);
  };
}

Schedule cosine_annealing_warm_restarts(std::int64_t t_0, std::int64_t t_mult, double eta_min,
                                        SchedulePer per) {
  check_count("cosine_annealing_warm_restarts", "t_0", t_0);
  check_count("cosine_annealing_warm_restarts", "t_mult", t_mult);
  check_rate("cosine_annealing_warm_restarts", "eta_min", eta_min);
  return [=](const TrainingTime& time) {
    double since = count(time, per), length = static_cast<double>(t_0);
    if (t_mult == 1) {
      since = std::fmod(since, length);
    }
    while (since >= length) {
      since -= length;
      length *= static_cast<double>(t_mult);
    }
    return factor_for("cosine_annealing_warm_restarts",
                      half_cosine(time.base_lr, eta_min, since / length), time);
  };
}

Schedule one_cycle_lr(double max_lr, std::int64_t total_steps, const OneCycleOptions& options,
                      SchedulePer per) {
  check_rate("one_cycle_lr", "max_lr", max_lr);
  check(total_steps >= 2, "one_cycle_lr: total_steps must be at least 2, got ", total_steps);
  check(options.pct_start >= 0 && options.pct_start <= 1,
        "one_cycle_lr: pct_start must lie in [0, 1], got ", options.pct_start);
  for (const double factor : {options.div_factor, options.final_div_factor}) {
    check(std::isfinite(factor) && factor > 0,
          "one_cycle_lr: div_factor and final_div_factor must be finite and above 0, got ", factor);
  }
  const double last = static_cast<double>(total_steps - 1);
  const double top = options.pct_start * static_cast<double>(total_steps) - 1;
  const double first_lr = max_lr / options.div_factor;
  const double last_lr = first_lr / options.final_div_factor;
  return [=](const TrainingTime& time) {
    const double t = std::min(count(time, per), last);
    const double lr = t <= top ? half_cosine(first_lr, max_lr, top == 0 ? 1 : t / top)
                               : half_cosine(max_lr, last_lr, (t - top) / (last - top));
    return factor_for("one_cycle_lr", lr, time);
  };
}

Schedule warm_up(std::int64_t of, Schedule then, SchedulePer per) {
  check_count("warm_up", "count", of);
  return [of, then = std::move(then), per](const TrainingTime& time) {
    const double rise = std::min(1.0, (count(time, per) + 1) / static_cast<double>(of));
    return rise * (then ? then(time) : 1.0);
  };
}

ReduceOnPlateau::ReduceOnPlateau(Optimizer& optimizer, const ReduceOnPlateauOptions& options)
    : optimizer_(optimizer), options_(options), best_(options.maximise ? -HUGE_VAL : HUGE_VAL) {
  check(options.factor > 0 && options.factor < 1,
        "ReduceOnPlateau: factor must lie in (0, 1), got ", options.factor);
  check(options.patience >= 0 && options.cooldown >= 0,
        "ReduceOnPlateau: patience and cooldown must be at least 0, got ", options.patience,
        " and ", options.cooldown);
  check_rate("ReduceOnPlateau", "threshold", options.threshold);
  check_rate("ReduceOnPlateau", "min_lr", options.min_lr);
  check_rate("ReduceOnPlateau", "eps", options.eps);
}

bool ReduceOnPlateau::is_better(double metric) const {
  if (std::isinf(best_)) {
    return options_.maximise ? metric > best_ : metric < best_;
  }
  const double margin = options_.threshold * (options_.relative ? best_ : 1.0);
  return options_.maximise ? metric > best_ + margin : metric < best_ - margin;
}

void ReduceOnPlateau::visit_state(StateVisitor& visitor) {
  visitor.number("best", best_);
  visitor.number("bad", bad_, 0);
  visitor.number("cooling", cooling_, 0);
}

std::string ReduceOnPlateau::text() const {
  return TextForm("ReduceOnPlateau")
      .argument("maximise", options_.maximise)
      .argument("factor", options_.factor)
      .argument("patience", options_.patience)
      .argument("threshold", options_.threshold)
      .argument("relative", options_.relative)
      .argument("cooldown", options_.cooldown)
      .argument("min_lr", options_.min_lr)
      .argument("eps", options_.eps)
      .str();
}

void ReduceOnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ > options_.patience) {
    const double lr = optimizer_.lr(), lower = std::max(lr * options_.factor, options_.min_lr);
    if (lr - lower > options_.eps) {
      optimizer_.set_lr(lower);
    }
    cooling_ = options_.cooldown;
    bad_ = 0;
  }
}

}  // namespace sinter
