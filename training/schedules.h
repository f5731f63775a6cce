// Learning-rate schedules: a factor on the optimizer's rate over the course of a run. Those with
// torch's names give the rates of torch.optim.lr_scheduler's closed forms.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <sinter/training/optimizers.h>

namespace sinter {

/// Where a run is when it makes a step.
struct TrainingTime {
  double progress = 0.0;   ///< from 0 at the first step of the run towards 1 at its end
  std::int64_t step = 0;   ///< of the run, counted from 0
  std::int64_t epoch = 0;  ///< of the run, counted from 0
  double base_lr = 0.0;    ///< the optimizer's, which the factor is for

  /// A schedule of one's own may take the progress alone.
  operator double() const { return progress; }
};

/// The factor on the learning rate.
using Schedule = std::function<double(const TrainingTime& time)>;

/// Rises linearly from 0 over the first `warmup` of the run, then falls along half a cosine to
/// `final` (Loshchilov and Hutter, "SGDR", 2017). Throws Error for a warmup outside [0, 1).
Schedule cosine(double warmup = 0.0, double final = 0.0);

/// What a schedule counts: t below.
enum class SchedulePer : std::uint8_t { epoch, step };

// Each throws Error for arguments out of range.

/// gamma^(t / step_size), rounded down.
Schedule step_lr(std::int64_t step_size, double gamma = 0.1, SchedulePer per = SchedulePer::epoch);
/// gamma^(milestones that t has reached)
Schedule multi_step_lr(std::vector<std::int64_t> milestones, double gamma = 0.1,
                       SchedulePer per = SchedulePer::epoch);
/// gamma^t
Schedule exponential_lr(double gamma, SchedulePer per = SchedulePer::epoch);
/// From start_factor to end_factor over total_iters.
Schedule linear_lr(double start_factor = 1.0 / 3, double end_factor = 1.0,
                   std::int64_t total_iters = 5, SchedulePer per = SchedulePer::epoch);
/// (1 - t / total_iters)^power, then 0.
Schedule polynomial_lr(std::int64_t total_iters = 5, double power = 1.0,
                       SchedulePer per = SchedulePer::epoch);
/// Down to the rate eta_min along half a cosine of length t_max, and up again.
Schedule cosine_annealing_lr(std::int64_t t_max, double eta_min = 0.0,
                             SchedulePer per = SchedulePer::epoch);
/// The same, but each time from the top: after t_0, then t_mult times as long, and so on.
Schedule cosine_annealing_warm_restarts(std::int64_t t_0, std::int64_t t_mult = 1,
                                        double eta_min = 0.0, SchedulePer per = SchedulePer::epoch);

struct OneCycleOptions {
  double pct_start = 0.3;         ///< of the steps, for the way up
  double div_factor = 25.0;       ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  ///< the last one is the first / final_div_factor
};
/// Up to the rate max_lr along half a cosine and down again within total_steps (Smith and Topin,
/// "Super-convergence", 2018); afterwards the last rate. Momentum stays as it is.
Schedule one_cycle_lr(double max_lr, std::int64_t total_steps, const OneCycleOptions& options = {},
                      SchedulePer per = SchedulePer::step);

/// (t + 1) / count of `then` while t < count, and `then` (a factor of 1 by default) from there on.
Schedule warm_up(std::int64_t count, Schedule then = nullptr, SchedulePer per = SchedulePer::step);

struct ReduceOnPlateauOptions {
  bool maximise = false;       ///< the larger metric is the better one
  double factor = 0.1;         ///< of the new rate, in (0, 1)
  std::int64_t patience = 10;  ///< metrics in a row that are no better, before the rate is lowered
  double threshold = 1e-4;     ///< by how much better counts
  bool relative = true;        ///< the threshold is a share of the best metric
  std::int64_t cooldown = 0;   ///< metrics after a reduction that do not count
  double min_lr = 0.0;
  double eps = 1e-8;  ///< a reduction smaller than this is left out
};

/// Lowers the rate where a metric stops getting better: torch's ReduceLROnPlateau. It takes the
/// place of a FitOptions::schedule, which would set the rate anew in each step. Checkpoints hold it
/// as one of FitOptions::parts.
///
///     ReduceOnPlateau plateau(optimizer, {.patience = 2});
///     trainer.fit(data, {.validation = &unseen, .on_epoch = [&](const EpochReport& report) {
///       plateau.step(report.validation->loss);
///       return true;
///     }});
class ReduceOnPlateau : public Stateful {
 public:
  /// The optimizer must outlive it. Throws Error for options out of range.
  explicit ReduceOnPlateau(Optimizer& optimizer, const ReduceOnPlateauOptions& options = {});
  /// The metric of an epoch. NaN is no better than any.
  void step(double metric);
  /// What it remembers of the metrics; the rate is the optimizer's.
  void visit_state(StateVisitor& visitor) override;
  std::string text() const override;

 private:
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  ReduceOnPlateauOptions options_;
  double best_;
  std::int64_t bad_ = 0;
  std::int64_t cooling_ = 0;
};

}  // namespace sinter
