#include <cmath>

#include <sinter/training/early_stopping.h>

namespace sinter {

EarlyStopping::EarlyStopping(Module& model, const EarlyStoppingOptions& options)
    : model_(model), options_(options), state_{options.maximise ? -HUGE_VAL : HUGE_VAL} {
  check(options.patience >= 1, "EarlyStopping: patience must be at least 1, got ",
        options.patience);
  check(std::isfinite(options.min_delta) && options.min_delta >= 0,
        "EarlyStopping: min_delta must be finite and at least 0, got ", options.min_delta);
  if (options.restore_best) {
    weights_.emplace(model);
  }
}

bool EarlyStopping::step(double metric) {
  const bool is_better = options_.maximise ? metric > state_.best + options_.min_delta
                                           : metric < state_.best - options_.min_delta;
  if (is_better) {
    state_ = {metric};
    if (weights_) {
      weights_.emplace(model_);
    }
    return true;
  }
  if (++state_.bad < options_.patience) {
    return true;
  }
  restore_best();
  return false;
}

void EarlyStopping::restore_best() {
  if (weights_ && std::abs(state_.best) != HUGE_VAL) {
    weights_->restore();
  }
}

}  // namespace sinter
