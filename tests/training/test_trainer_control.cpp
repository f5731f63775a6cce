// What a run is told beside its epochs: micro-batches, averages, when to stop and to look.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/child.h"
#include "../runtime/sentence.h"
#include "clouds.h"
#include "data_files.h"
#include "weights.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

std::vector<float> averages(EMA& ema) {
  std::vector<float> out;
  for (const NamedBuffer& average : ema.averages()) {
    const auto values = average.value.to_vector<float>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// Everything that a run of it needs, of one seed.
struct Run {
  TensorDataset data = clouds(70, 4, 3), unseen = clouds(40, 4, 3);
  Sequential model;
  AdamW optimizer;
  Trainer trainer;

  explicit Run(double lr = 0.01)
      : model(drawn()),
        optimizer(weight_decay_groups(model.parameters()), {.lr = lr, .weight_decay = 0.1}),
        trainer(model, CrossEntropyLoss{}, optimizer) {}
  static Sequential drawn() {
    manual_seed(5);
    Sequential model{Linear{4, 16}, ReLU{.drop_p = 0.2}, Linear{16, 3}};
    model.parameters();
    return model;
  }
  std::vector<EpochReport> fit(FitOptions options) {
    options.progress = false;
    return trainer.fit(data, options);
  }
};

}  // namespace

TEST_CASE("fit with accumulate is the loop that one would write by hand") {
  Run run, by_hand;
  const auto half = [](double progress) { return 1 - 0.5 * progress; };
  const auto reports = run.fit({.epochs = 2, .batch_size = 8, .accumulate = 3, .schedule = half});
  // Updates of 24, 24 and 22 items: the last one of 8, 8 and 6.
  CHECK(run.optimizer.steps() == 6);
  int step = 0;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto order = permutation(70, global_seed(), epoch);
    double total = 0;
    for (std::size_t first = 0; first < 70; first += 24) {
      const std::size_t items = std::min<std::size_t>(24, 70 - first);
      for (std::size_t i = 0; i < items; i += 8) {
        const std::size_t count = std::min<std::size_t>(8, items - i);
        const auto [x, y] =
            by_hand.data.batch(std::span<const std::int64_t>(order).subspan(first + i, count));
        Tape tape;
        const Tensor loss = cross_entropy(by_hand.model(x), y) *
                            (static_cast<double>(count) / static_cast<double>(items));
        tape.backward(loss);
        total += loss.item() * static_cast<double>(items);
      }
      by_hand.optimizer.set_lr(0.01 * half(step++ / 6.0));
      by_hand.optimizer.step();
    }
    CHECK(reports[static_cast<std::size_t>(epoch)].items == 70);
    CHECK(reports[static_cast<std::size_t>(epoch)].loss ==
          doctest::Approx(total / 70).epsilon(1e-6));
  }
  CHECK(weights(run.model) == weights(by_hand.model));
  // drop_last leaves out what is no whole update.
  CHECK(run.fit({.batch_size = 8, .accumulate = 3, .drop_last = true})[0].items == 48);
}

TEST_CASE("fit holds gradients to max_grad_value") {
  Run run;
  SGD sgd{run.model.parameters(), {.lr = 1}};
  const auto before = weights(run.model);
  Trainer{run.model, CrossEntropyLoss{}, sgd}.fit(
      run.data, {.batch_size = 70, .max_grad_value = 1e-3, .progress = false});
  const auto after = weights(run.model);
  double largest = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(after[i] - before[i])));
  }
  CHECK(largest == doctest::Approx(1e-3).epsilon(1e-3));
}

TEST_CASE("averages are validated and the weights are trained") {
  Run run, without;
  EMA ema(run.model, {.decay = 0.9});
  const auto reports =
      run.fit({.epochs = 3, .batch_size = 16, .validation = &run.unseen, .ema = &ema});
  without.fit({.epochs = 3, .batch_size = 16});
  CHECK(weights(run.model) == weights(without.model));
  CHECK(ema.updates() == run.optimizer.steps());
  ema.copy_to(without.model);
  CHECK(weights(without.model) == averages(ema));
  CHECK(reports.back().validation->loss == without.trainer.evaluate(run.unseen).loss);
  CHECK(reports.back().validation->loss != run.trainer.evaluate(run.unseen).loss);
}

TEST_CASE("a run that gets no better ends, with the best weights") {
  Run still(0);  // nothing changes, so nothing is better than the first epoch
  EarlyStopping patient(still.model, {.patience = 2});
  CHECK(still.fit({.epochs = 9, .validation = &still.unseen, .early_stopping = &patient}).size() ==
        3);
  CHECK(patient.stopped());
  // Another run begins anew.
  CHECK(still.fit({.epochs = 9, .validation = &still.unseen, .early_stopping = &patient}).size() ==
        3);

  Run run(3);  // far too fast
  EarlyStopping stopping(run.model, {.patience = 2, .restore_best = true});
  double best = HUGE_VAL;
  std::vector<float> best_weights;
  const auto look = [&](const EpochReport& report) {
    if (report.validation->loss < best) {
      best = report.validation->loss;
      best_weights = weights(run.model);
    }
    return true;
  };
  const auto reports = run.fit({.epochs = 50,
                                .batch_size = 16,
                                .validation = &run.unseen,
                                .early_stopping = &stopping,
                                .on_epoch = look});
  REQUIRE(reports.size() < 50);
  CHECK(weights(run.model) == best_weights);
  CHECK(run.trainer.evaluate(run.unseen).loss == best);

  // With averages, which are what was validated.
  Run averaged(3);
  EMA ema(averaged.model, {.decay = 0.5});
  EarlyStopping keeps_averages(averaged.model, {.patience = 2, .restore_best = true});
  best = HUGE_VAL;
  for (const EpochReport& report : averaged.fit({.epochs = 50,
                                   .batch_size = 16,
                                   .validation = &averaged.unseen,
                                   .ema = &ema,
                                   .early_stopping = &keeps_averages})) {
    best = std::min(best, report.validation->loss);
  }
  CHECK(averaged.trainer.evaluate(averaged.unseen).loss == best);

  // By accuracy; and where the epochs run out first.
  Run short_run(3);
  EarlyStopping by_accuracy(short_run.model,
                            {.maximise = true, .patience = 90, .restore_best = true});
  double most = -1;
  for (const EpochReport& report : short_run.fit(
           {.epochs = 6, .validation = &short_run.unseen, .early_stopping = &by_accuracy})) {
    most = std::max(most, *report.validation->accuracy);
  }
  CHECK(*short_run.trainer.evaluate(short_run.unseen).accuracy == most);
}

TEST_CASE("validation comes every n steps and after each epoch") {
  Run run;
  std::vector<std::int64_t> steps, epochs;
  std::vector<double> losses;
  const auto reports =
      run.fit({.epochs = 2,  // of 5 steps
               .batch_size = 16,
               .validation = &run.unseen,
               .validate_every = 2,
               .on_validation = [&](const ValidationReport& report) {
                 steps.push_back(report.step);
                 epochs.push_back(report.epoch);
                 losses.push_back(report.evaluation.loss);
                 CHECK(report.evaluation.items == 40);
                 CHECK(run.optimizer.steps() == report.step);
                 CHECK(report.evaluation.loss == run.trainer.evaluate(run.unseen).loss);
               }});
  CHECK(steps == std::vector<std::int64_t>{2, 4, 5, 6, 8, 10});  // 10 once
  CHECK(epochs == std::vector<std::int64_t>{1, 1, 1, 2, 2, 2});
  CHECK(losses[2] == reports[0].validation->loss);
  CHECK(losses[5] == reports[1].validation->loss);
  // Looking changes nothing.
  Run without;
  without.fit({.epochs = 2, .batch_size = 16});
  CHECK(weights(without.model) == weights(run.model));
}

TEST_CASE("each step is told of, with its rate and loss") {
  Run run;
  std::vector<StepReport> steps;
  const auto reports = run.fit(
      {.epochs = 2,
       .batch_size = 16,
       .schedule = [](const TrainingTime& t) { return 1 - 0.05 * static_cast<double>(t.step); },
       .on_step = [&](const StepReport& report) { steps.push_back(report); }});
  REQUIRE(steps.size() == 10);
  double total = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].step == static_cast<std::int64_t>(i) + 1);
    CHECK(steps[i].epoch == (i < 5 ? 1 : 2));
    CHECK(steps[i].items == (i % 5 == 4 ? 6 : 16));
    CHECK(steps[i].lr == doctest::Approx(0.01 * (1 - 0.05 * static_cast<double>(i))));
    total += i < 5 ? steps[i].loss.item() * static_cast<double>(steps[i].items) : 0;
  }
  CHECK(reports[0].loss == doctest::Approx(total / 70).epsilon(1e-6));
}

TEST_CASE("child: overfit the first batch" * doctest::skip()) {
  // Labels without any rule behind them: only memory helps.
  TensorDataset data = clouds(64, 4, 3);
  auto labels = data.targets().to_vector<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i * 7 % 5);
  }
  data = {data.inputs(), Tensor::from(labels, {64})};
  manual_seed(5);
  Sequential model{Linear{4, 128}, ReLU{}, Linear{128, 5}};
  Adam optimizer{model.parameters(), {.lr = 0.01}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const auto reports = trainer.fit(
      data, {.epochs = 150, .batch_size = 16, .overfit_batch = true, .progress = false});
  CHECK(reports.back().loss < 0.01);
  CHECK(reports.back().items == 64);  // as many steps as ever
  CHECK(optimizer.steps() == 150 * 4);
  const std::vector<std::int64_t> first{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto [x, y] = data.batch(first);
  CHECK(model.predict(x).to_vector<std::int64_t>() == y.to_vector<std::int64_t>());
}

TEST_CASE("a run on its first batch alone learns it by heart and says so") {
  const ChildOutput out = run_child("env -u SINTER_LOG", "child: overfit the first batch");
  CAPTURE(out.text);
  CHECK(out.passed);
  CHECK(out.count("overfit_batch: training on the first 16 items alone took their mean loss") == 1);
  CHECK(out.count("in epoch 150; where it does not come near 0") == 1);
}

TEST_CASE("a run that was stopped goes on with averages, groups and patience as they were") {
  const testing::TempFolder folder;
  struct Whole : Run {
    EMA ema;
    EarlyStopping stopping;

    explicit Whole(double lr)
        : Run(lr),
          ema(model, {.decay = 0.8, .warm_up = true}),
          stopping(model, {.patience = 4, .restore_best = true}) {}
    std::vector<EpochReport> go(std::int64_t epochs, const std::filesystem::path& resume,
                                const std::filesystem::path& path) {
      FitOptions options{.epochs = epochs, .batch_size = 8, .accumulate = 2};
      options.validation = &unseen;
      options.ema = &ema;
      options.early_stopping = &stopping;
      options.resume = resume;
      options.checkpoint = CheckpointOptions{.path = path};
      return fit(options);
    }
  };
  for (const double lr : {0.02, 2.0}) {  // one gets better, one is stopped
    CAPTURE(lr);
    Whole whole(lr), first(lr), second(lr);
    const auto reports = whole.go(12, {}, folder / "a.safetensors");
    first.go(3, {}, folder / "b.safetensors");
    second.optimizer.set_lr_scale(1, 9);  // the file's is taken
    const auto resumed = second.go(12, folder / "b.safetensors", folder / "c.safetensors");
    CHECK(resumed.size() == reports.size());
    CHECK(weights(second.model) == weights(whole.model));
    CHECK(averages(second.ema) == averages(whole.ema));
    CHECK(second.stopping.stopped() == whole.stopping.stopped());
    // One that had stopped does not start again.
    Whole third(lr);
    CHECK(third.go(12, folder / "c.safetensors", folder / "d.safetensors").size() ==
          reports.size());
    CHECK(weights(third.model) == weights(whole.model));
  }
}

TEST_CASE("what fit refuses of these options") {
  Run run, other;
  EMA of_other(other.model);
  EarlyStopping stops_other(other.model), own(run.model, {.maximise = true});
  const auto refused = [&](const FitOptions& options,
                           std::initializer_list<std::string_view> words) {
    check_refused([&] { run.fit(options); }, words);
  };
  refused({.accumulate = 0}, {"Trainer::fit: accumulate", "0"});
  refused({.batch_size = 1L << 40, .accumulate = 1L << 40}, {"Trainer::fit: accumulate"});
  refused({.max_grad_value = -1.0}, {"Trainer::fit: max_grad_value", "-1"});
  refused({.validate_every = -1}, {"Trainer::fit: validate_every", "-1"});
  refused({.validate_every = 3}, {"validate_every needs FitOptions::validation"});
  refused({.early_stopping = &own}, {"early_stopping needs FitOptions::validation"});
  refused({.ema = &of_other}, {"ema averages another model"});
  refused({.validation = &run.unseen, .early_stopping = &stops_other}, {"another model"});
  const TensorDataset regression(run.unseen.inputs(), run.unseen.inputs().view_rows(0, 40));
  Trainer mse{run.model, [](const Tensor& y, const Tensor&) { return mean(y * y); }, run.optimizer};
  check_refused(
      [&] {
        mse.fit(run.data, {.validation = &regression, .early_stopping = &own, .progress = false});
      },
      {"early_stopping maximises", "accuracy"});
}
