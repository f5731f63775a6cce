// Learning-rate schedules: a factor on the optimizer's rate over the course of a run.
#pragma once

#include <functional>

namespace sinter {

/// The factor at `progress` of a run, from 0 at its first step towards 1 at its end.
using Schedule = std::function<double(double progress)>;

/// Rises linearly from 0 over the first `warmup` of the run, then falls along half a cosine to
/// `final` (Loshchilov and Hutter, "SGDR", 2017). Throws Error for a warmup outside [0, 1).
Schedule cosine(double warmup = 0.0, double final = 0.0);

}  // namespace sinter
