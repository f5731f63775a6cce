// Schedules: what they count, what they refuse, and the plateau. Rates against PyTorch's are
// golden_check's subject.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

TensorDataset some_data() {
  return {Tensor::full({20, 2}, 0.5), Tensor::zeros({20}, DType::int64)};
}

// The rates of all steps of a run, as its optimizer saw them.
std::vector<double> rates(const Schedule& schedule, std::int64_t epochs) {
  std::vector<double> seen;
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters(), {.lr = 0.5}};
  const Loss loss = [&](const Tensor& output, const Tensor& labels) {
    seen.push_back(optimizer.lr());
    return cross_entropy(output, labels);
  };
  Trainer{model, loss, optimizer}.fit(
      some_data(), {.epochs = epochs, .batch_size = 10, .schedule = schedule, .progress = false});
  CHECK(optimizer.lr() == 0.5);
  return seen;
}

}  // namespace

TEST_CASE("schedules count epochs or steps") {
  CHECK(rates(step_lr(1, 0.5), 3) == std::vector<double>{0.5, 0.5, 0.25, 0.25, 0.125, 0.125});
  CHECK(rates(step_lr(1, 0.5, SchedulePer::step), 2) ==
        std::vector<double>{0.5, 0.25, 0.125, 0.0625});
  CHECK(rates(warm_up(4), 3) == std::vector<double>{0.125, 0.25, 0.375, 0.5, 0.5, 0.5});
  CHECK(rates(warm_up(2, step_lr(2, 0.5)), 3) ==
        std::vector<double>{0.25, 0.5, 0.5, 0.5, 0.25, 0.25});
  CHECK(rates([](double progress) { return 1 - progress; }, 1) == std::vector<double>{0.5, 0.25});
}

TEST_CASE("schedules beyond their end") {
  const auto at = [](const Schedule& schedule, std::int64_t epoch) {
    return schedule({.step = epoch, .epoch = epoch, .base_lr = 0.1});
  };
  CHECK(at(linear_lr(0.5, 1, 4), 100) == 1);
  CHECK(at(polynomial_lr(4), 100) == 0);
  CHECK(at(one_cycle_lr(0.4, 10), 100) == doctest::Approx(0.4 / 25 / 1e4 / 0.1));
  CHECK(at(one_cycle_lr(0.4, 10, {.pct_start = 1}), 9) == doctest::Approx(4));
  CHECK(at(cosine_annealing_warm_restarts(3), 300) == 1);
  CHECK(at(cosine_annealing_warm_restarts(3, 2), 3 + 6 + 12) == 1);
  CHECK(at(cosine_annealing_lr(5), 10) == doctest::Approx(1));
}

TEST_CASE("ReduceOnPlateau waits, lowers, rests, and stops at the bottom") {
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters(), {.lr = 1}};
  ReduceOnPlateau plateau(optimizer, {.factor = 0.5, .patience = 1, .cooldown = 2, .min_lr = 0.2});
  const auto after = [&](double metric) {
    plateau.step(metric);
    return optimizer.lr();
  };
  CHECK(after(3) == 1);
  CHECK(after(2) == 1);
  CHECK(after(2) == 1);          // one that is no better
  CHECK(after(1.99999) == 0.5);  // by too little
  CHECK(after(5) == 0.5);        // two that do not count
  CHECK(after(5) == 0.5);
  CHECK(after(5) == 0.5);
  CHECK(after(std::nan("")) == 0.25);
  CHECK(after(1) == 0.25);
  for (int i = 0; i < 20; ++i) {
    plateau.step(9);
  }
  CHECK(optimizer.lr() == 0.2);

  ReduceOnPlateau absolute(optimizer,
                           {.factor = 0.5, .patience = 0, .threshold = 0.5, .relative = false});
  CHECK((absolute.step(100), absolute.step(99.4), optimizer.lr()) == 0.2);
  CHECK((absolute.step(99), optimizer.lr()) == 0.1);
  optimizer.set_lr(0.2);
  ReduceOnPlateau rising(optimizer, {.maximise = true, .factor = 0.5, .patience = 0});
  CHECK((rising.step(-2), rising.step(-1), optimizer.lr()) == 0.2);
  CHECK((rising.step(-1.5), optimizer.lr()) == 0.1);
}

TEST_CASE("a plateau in on_epoch changes the rate of the epochs that follow") {
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters(), {.lr = 0.5}};
  ReduceOnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0});
  std::vector<double> seen;
  Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
      some_data(),
      {.epochs = 3, .batch_size = 10, .progress = false, .on_epoch = [&](const EpochReport&) {
         plateau.step(1);
         seen.push_back(optimizer.lr());
         return true;
       }});
  CHECK(seen == std::vector<double>{0.5, 0.25, 0.125});
  CHECK(optimizer.lr() == 0.125);
}

TEST_CASE("a plateau beside a schedule is refused, for it would change nothing") {
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters(), {.lr = 0.5}};
  ReduceOnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0});
  check_refused(
      [&] {
        Trainer{model, CrossEntropyLoss{}, optimizer}.fit(some_data(),
                                                          {.epochs = 3,
                                                           .batch_size = 10,
                                                           .schedule = step_lr(1),
                                                           .progress = false,
                                                           .on_epoch = [&](const EpochReport&) {
                                                             plateau.step(1);
                                                             return true;
                                                           }});
      },
      {"on_epoch", "schedule", "one of the two"});
  CHECK(optimizer.lr() == 0.5);
}

TEST_CASE("schedules refuse what makes no sense") {
  check_refused([] { step_lr(0); }, {"step_lr", "step_size", "0"});
  check_refused([] { step_lr(1, std::nan("")); }, {"step_lr", "gamma"});
  check_refused([] { multi_step_lr({1}, -1); }, {"multi_step_lr", "gamma"});
  check_refused([] { multi_step_lr({-1}); }, {"multi_step_lr", "milestone", "-1"});
  check_refused([] { one_cycle_lr(0.1, 9, {.div_factor = HUGE_VAL}); }, {"div_factor"});
  check_refused([] { exponential_lr(HUGE_VAL); }, {"exponential_lr", "gamma"});
  check_refused([] { linear_lr(-1); }, {"linear_lr", "start_factor"});
  check_refused([] { polynomial_lr(0); }, {"polynomial_lr", "total_iters"});
  check_refused([] { cosine_annealing_lr(5, -1); }, {"cosine_annealing_lr", "eta_min"});
  check_refused([] { cosine_annealing_warm_restarts(1, 0); }, {"t_mult"});
  check_refused([] { one_cycle_lr(0.1, 1); }, {"one_cycle_lr", "total_steps"});
  check_refused([] { one_cycle_lr(0.1, 9, {.pct_start = 2}); }, {"one_cycle_lr", "pct_start"});
  check_refused([] { warm_up(0); }, {"warm_up", "count"});
  check_refused([] { one_cycle_lr(0.1, 9)({.base_lr = 0}); }, {"one_cycle_lr", "lr", "above 0"});
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters()};
  check_refused([&] { ReduceOnPlateau(optimizer, {.factor = 1}); }, {"factor", "(0, 1)"});
  check_refused([&] { ReduceOnPlateau(optimizer, {.patience = -1}); }, {"patience"});
  check_refused([&] { ReduceOnPlateau(optimizer, {.eps = std::nan("")}); }, {"eps"});
}
