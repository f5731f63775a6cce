#include <cmath>
#include <utility>

#include <sinter/training/checkpoint.h>
#include <sinter/training/epoch_run.h>

namespace sinter {

void check_loss(double loss, std::int64_t step, double lr) {
  if (!std::isfinite(loss)) {
    throw NonFiniteError(text("Trainer: the loss is ", loss, " at step ", step,
                              " with learning rate ", lr,
                              "; a smaller rate, or inputs scaled to about 1, usually help"));
  }
}

void EpochRun::look_at(double loss, std::int64_t step, double lr) const {
  if (!may_overflow_) {
    check_loss(loss, step, lr);
  }
}

void EpochRun::count(double loss, std::int64_t items) {
  sums_.items += items;
  if (std::isfinite(loss)) {
    sums_.loss += loss * static_cast<double>(items);
  } else {
    sums_.overflowed += items;
  }
}

std::vector<double> EpochRun::lrs(std::int64_t steps) const {
  std::vector<double> out;
  for (std::int64_t ahead = 0; ahead < steps; ++ahead) {
    out.push_back(lr_at_(first_step_ + batch_ + ahead));
  }
  return out;
}

void EpochRun::add(double loss, std::int64_t items) {
  count(loss, items);
  ++batch_;
  ++read_;
  bar_.update(sums_.items, this->loss());
}

void EpochRun::add(const Tensor& losses, std::int64_t items_each, std::vector<double> lrs) {
  batch_ += losses.numel();
  waiting_.push_back({losses, items_each, std::move(lrs)});
}

bool EpochRun::is_due() const { return Clock::now() - last_read_ > std::chrono::milliseconds(200); }

void EpochRun::read() {
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    const auto losses = waiting.losses.to(DType::float32).to_vector<float>();
    for (std::size_t i = 0; i < losses.size(); ++i) {
      look_at(losses[i], ++read_, waiting.lrs[i]);
      count(losses[i], waiting.items_each);
    }
    bar_.update(sums_.items, loss());
  }
  last_read_ = Clock::now();
}

}  // namespace sinter
