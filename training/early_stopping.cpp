#include <cmath>

#include <sinter/layers/text_form.h>
#include <sinter/training/early_stopping.h>

namespace sinter {

EarlyStopping::EarlyStopping(Module& model, const EarlyStoppingOptions& options)
    : model_(model), options_(options), best_(options.maximise ? -HUGE_VAL : HUGE_VAL) {
  check(options.patience >= 1, "EarlyStopping: patience must be at least 1, got ",
        options.patience);
  check(std::isfinite(options.min_delta) && options.min_delta >= 0,
        "EarlyStopping: min_delta must be finite and at least 0, got ", options.min_delta);
  if (options.restore_best) {
    weights_.emplace(model);
  }
}

bool EarlyStopping::step(double metric) {
  const bool is_better =
      options_.maximise ? metric > best_ + options_.min_delta : metric < best_ - options_.min_delta;
  if (is_better) {
    best_ = metric;
    bad_ = 0;
    if (weights_) {
      weights_.emplace(model_);
    }
    return true;
  }
  return ++bad_ < options_.patience;
}

void EarlyStopping::reset() {
  best_ = options_.maximise ? -HUGE_VAL : HUGE_VAL;
  bad_ = 0;
}

void EarlyStopping::restore_best() {
  if (weights_ && std::abs(best_) != HUGE_VAL) {
    weights_->restore();
  }
}

void EarlyStopping::visit_state(StateVisitor& visitor) {
  visitor.number("best", best_);
  visitor.number("bad", bad_, 0);
  if (weights_) {
    weights_->visit(visitor);
  }
}

std::string EarlyStopping::text() const {
  return TextForm("EarlyStopping")
      .argument("maximise", options_.maximise)
      .argument("patience", options_.patience)
      .argument("min_delta", options_.min_delta)
      .argument("restore_best", options_.restore_best)
      .str();
}

}  // namespace sinter
