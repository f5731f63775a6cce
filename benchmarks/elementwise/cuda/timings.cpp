#include "timings.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "../../median.h"
#include "replay.h"
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/kernels/ops.h>
#include <sinter/runtime/cuda/check.h>

namespace bench {

using namespace sinter;

namespace {

std::string name_of_activation(const math::AnyActivation& act) {
  return std::visit([]<class A>(const A&) { return std::string(A::name); }, act);
}

bool keeps_input(const math::AnyActivation& act) {
  return std::visit([]<class A>(const A&) { return math::derives_from_input<A>; }, act);
}

/// Cases that take turns with a copy on the same slices, so that a clock that drifts drifts for
/// all.
class Turns {
 public:
  Turns(const Arena& arena, Arena::Slices& slices, std::string name)
      : arena_(arena), slices_(slices), name_(std::move(name)) {
    add("copy", 0, [this](std::size_t i) {
      cuda::check(
          cudaMemcpyAsync(slices_.dx[i].address(), slices_.x[i].address(), slices_.x[i].bytes(),
                          cudaMemcpyDeviceToDevice, cuda::use(arena_.device().index)),
          "cudaMemcpyAsync");
    });
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// `launch` is given the slice to work on.
  void add(const char* direction, double p, std::function<void(std::size_t)> launch) {
    const std::int64_t n = slices_.x[0].numel();
    timed_.push_back(
        {{name_, arena_.dtype(), direction, p, n},
         std::make_unique<Replay>(arena_.device(), launches_of(n, arena_.dtype()), n < whole,
                                  [this, launch](int i) { launch(slices_.of(i)); }),
         {}});
  }

  std::vector<Result> medians(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (Timed& one : timed_) {
        one.times.push_back(one.replay->time());
      }
    }
    std::vector<Result> results;
    for (std::size_t i = 1; i < timed_.size(); ++i) {
      Result result = timed_[i].result;
      result.us = median(timed_[i].times);
      result.copy_us = median(timed_[0].times);
      results.push_back(result);
    }
    return results;
  }

 private:
  struct Timed {
    Result result;
    std::unique_ptr<Replay> replay;
    std::vector<double> times;
  };

  const Arena& arena_;
  Arena::Slices& slices_;
  std::string name_;
  std::vector<Timed> timed_;
};

ops::DropoutArgs dropout_args(double p) { return {.mask = math::dropout_mask(p, 7, 0, 0)}; }

}  // namespace

std::vector<Result> time_ops(const Arena& arena, Arena::Slices slices,
                             const math::AnyActivation& act, const std::vector<double>& ps,
                             int rounds) {
  Turns turns(arena, slices, name_of_activation(act));
  for (const double p : ps) {
    const ops::ActivationArgs args{act, dropout_args(p), arena.dtype()};
    turns.add("forward", p,
              [&](std::size_t i) { ops::activation_forward(slices.x[i], slices.y[i], args); });
    // Its replay comes after the forward one with the same p, so y is what it would be.
    const std::vector<Tensor>& kept = keeps_input(act) ? slices.x : slices.y;
    turns.add("backward", p, [&](std::size_t i) {
      ops::activation_backward(kept[i], slices.dy[i], slices.dx[i], args);
    });
  }
  return turns.medians(rounds);
}

std::vector<Result> time_dropout(const Arena& arena, Arena::Slices slices,
                                 const std::vector<double>& ps, int rounds) {
  Turns turns(arena, slices, "dropout");
  for (const double p : ps) {
    turns.add("forward", p,
              [&](std::size_t i) { ops::dropout(slices.x[i], slices.y[i], dropout_args(p)); });
  }
  return turns.medians(rounds);
}

Result time_tape(const Arena& arena, const Arena::Slices& slices, const math::AnyActivation& act,
                 double p, int rounds, double copy_us) {
  using Clock = std::chrono::steady_clock;
  const auto generator = std::make_shared<Generator>(7);
  const std::int64_t n = slices.x[0].numel();
  const int calls = launches_of(n, arena.dtype());
  const auto call = [&](int i) {
    Tensor leaf = slices.x[slices.of(i)];
    leaf.set_requires_grad();
    Tape tape;
    // Inside a network an input is no leaf, which would keep the gradient in memory of its own.
    Tensor x = leaf.detach();
    record("input", {leaf}, x, [](Backward&) {});
    const Tensor y = activation(x, act, {.p = p, .generator = generator});
    tape.backward(y, slices.dy[slices.of(i)]);
  };
  call(0);
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    synchronize(arena.device());
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      call(i);
    }
    synchronize(arena.device());
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                    calls);
  }
  return {name_of_activation(act), arena.dtype(), "tape", p, n, median(times), copy_us};
}

}  // namespace bench
