// What a step does, recorded or not: forward, loss, backward, update.
#include <algorithm>
#include <cmath>
#include <typeinfo>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/sequential.h>
#include <sinter/training/captured_step.h>
#include <sinter/training/clip.h>
#include <sinter/training/ema.h>

namespace sinter {

// A Linear at the end of a Sequential and cross entropy are one op.
Tensor CapturedStep::loss_of(const Batch& batch) {
  const auto* cross_entropy = loss_.target<CrossEntropyLoss>();
  if (cross_entropy != nullptr && typeid(model_) == typeid(Sequential)) {
    return static_cast<Sequential&>(model_).cross_entropy(batch.inputs, batch.targets,
                                                          cross_entropy->options);
  }
  return loss_(model_(batch.inputs), batch.targets);
}

// Forward and backward, a micro-batch at a time; the loss of all of them. The tape of the last one
// is the caller's to end after the update, since its end would compute gradients that it put off.
Tensor CapturedStep::backward(std::optional<Tape>& tape, const Batch& batch, const Look* look) {
  const auto of_piece = [&](const Batch& piece, double share) {
    tape.emplace();
    Tensor loss = loss_of(piece);
    if (look != nullptr) {
      (*look)(loss.item());
    }
    if (share != 1) {
      loss = loss * share;
    }
    tape->backward(scaler_ != nullptr ? scaler_->scale(loss) : loss);
    return loss.detach();
  };
  const std::int64_t rows = batch.inputs.rank() > 0 ? batch.inputs.size(0) : 1;
  const std::int64_t most = micro_batch_.value_or(rows);
  if (rows <= most) {
    return of_piece(batch, 1);
  }
  Tensor total;
  try {
    for (std::int64_t begin = 0; begin < rows; begin += most) {
      const std::int64_t end = std::min(rows, begin + most);
      const Tensor loss =
          of_piece({batch.inputs.view_rows(begin, end), batch.targets.view_rows(begin, end)},
                   static_cast<double>(end - begin) / static_cast<double>(rows));
      total = total.defined() ? total + loss : loss;
    }
  } catch (...) {
    optimizer_.clear_gradients();  // some of them are none
    throw;
  }
  return total;
}

void CapturedStep::update() {
  if (scaler_ != nullptr) {
    scaler_->unscale(optimizer_, max_grad_value_ ? HUGE_VAL : max_grad_norm_.value_or(HUGE_VAL));
  }
  if (max_grad_value_) {
    clip_grad_value(optimizer_.parameters(), *max_grad_value_);
  }
  if (max_grad_norm_ && (scaler_ == nullptr || max_grad_value_)) {
    clip_grad_norm(optimizer_.parameters(), *max_grad_norm_);
  }
  if (scaler_ != nullptr) {
    scaler_->step(optimizer_);
    scaler_->update();
  } else {
    optimizer_.step();
  }
  if (ema_ != nullptr) {
    ema_->update();
  }
}

Tensor CapturedStep::step(const Batch& batch, const Look* look) {
  const Autocast of_this_step(Autocast::dtype());  // copies of parameters go with it
  std::optional<Tape> tape;
  Tensor loss = backward(tape, batch, look);
  update();
  return loss;
}

double CapturedStep::eager(const Batch& batch, const Look& look) {
  return step(batch, &look).item();
}

}  // namespace sinter
