// Which checkpoints a run keeps, and what it does at a loss that is not finite.
#include <cmath>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/child.h"
#include "../runtime/sentence.h"
#include "checkpoint_run.h"
#include "data_files.h"

using namespace sinter;
using namespace sinter::testing;

namespace {

const TensorDataset& data() {
  static const TensorDataset all = clouds(70, 12, 5);  // 5 batches of 16 in an epoch
  return all;
}

FitOptions options_with(const CheckpointOptions& checkpoint) {
  FitOptions options;
  options.epochs = 4;
  options.batch_size = 16;
  options.checkpoint = checkpoint;
  options.progress = false;
  return options;
}

std::set<std::string> names_in(const TempFolder& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    out.insert(entry.path().filename().string());
  }
  return out;
}

std::int64_t steps_in(const std::filesystem::path& path) {
  return static_cast<std::int64_t>(read_safetensors(path).tensors.at("optimizer.steps").item());
}

// A run whose loss is NaN at those of its calls in training.
struct NanRun : SmallRun {
  explicit NanRun(std::set<std::int64_t> at) {
    const auto loss = [calls = std::make_shared<std::int64_t>(0), at = std::move(at),
                       net = model.get()](const Tensor& output, const Tensor& targets) {
      const Tensor usual = cross_entropy(output, targets);
      return net->training() && at.contains(++*calls) ? usual * NAN : usual;
    };
    trainer = std::make_unique<Trainer>(*model, loss, *optimizer);
  }
};

TEST_CASE("as many checkpoints are kept as asked for, the newest under the plain name") {
  const TempFolder folder;
  SmallRun run;
  run.trainer->fit(data(), options_with({.path = folder / "run.st", .keep = 3}));
  CHECK(names_in(folder) == std::set<std::string>{"run.st", "run.1.st", "run.2.st"});
  CHECK(steps_in(folder / "run.st") == 20);
  CHECK(steps_in(folder / "run.1.st") == 15);
  CHECK(steps_in(folder / "run.2.st") == 10);
  // One run after another keeps the older one's for a while; without `keep` there is one file.
  const TempFolder other;
  SmallRun().trainer->fit(data(), options_with({.path = other / "run", .every_epochs = 3}));
  CHECK(names_in(other) == std::set<std::string>{"run"});
  CHECK(steps_in(other / "run") == 20);  // the last epoch has one, whatever its number
}

TEST_CASE("a run that was killed after it made room, and before it wrote, makes room once") {
  const TempFolder folder;
  FitOptions options = options_with({.path = folder / "run", .keep = 3});
  options.epochs = 2;
  SmallRun().trainer->fit(data(), options);
  std::filesystem::rename(folder / "run.1", folder / "run.2");
  std::filesystem::create_hard_link(folder / "run", folder / "run.1");
  options.epochs = 3;
  options.resume = folder / "run";
  SmallRun().trainer->fit(data(), options);
  CHECK(steps_in(folder / "run") == 15);
  CHECK(steps_in(folder / "run.1") == 10);
  CHECK(steps_in(folder / "run.2") == 5);
}

TEST_CASE("through a link, the file that it names is written and kept") {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "real");
  std::ofstream(folder / "real/run.st") << "something older";
  std::filesystem::create_symlink(folder / "real/run.st", folder / "run.st");
  SmallRun run;
  run.trainer->fit(data(), options_with({.path = folder / "run.st", .keep = 2}));
  CHECK(std::filesystem::is_symlink(folder / "run.st"));
  CHECK(steps_in(folder / "run.st") == 20);
  CHECK(steps_in(folder / "real/run.1.st") == 15);
}

TEST_CASE("the best checkpoint is that of the epoch with the best validation") {
  // Losses of validation that come in turn; the accuracy is what it is.
  const auto best_of = [](const std::vector<double>& losses, const TempFolder& folder) {
    SmallRun run;
    const auto loss = [&losses, next = std::make_shared<std::size_t>(0), net = run.model.get()](
                          const Tensor& output, const Tensor& targets) {
      return net->training() ? cross_entropy(output, targets) : Tensor::full({}, losses[(*next)++]);
    };
    Trainer trainer{*run.model, loss, *run.optimizer};
    FitOptions options = options_with({.path = folder / "run.st", .best = BestBy::loss});
    options.validation = &data();
    trainer.fit(data(), options);
    return steps_in(folder / "run.best.st");
  };
  const TempFolder folder;
  CHECK(best_of({3, 1, 2, 1.5}, folder) == 10);
  CHECK(best_of({3, 3, 3, 3}, folder) == 5);
  CHECK(best_of({3, NAN, 2.5, 2}, folder) == 20);
  CHECK(steps_in(folder / "run.st") == 20);
  CHECK(names_in(folder) == std::set<std::string>{"run.st", "run.best.st"});

  SmallRun run;
  FitOptions options = options_with({.path = folder / "acc.st", .best = BestBy::accuracy});
  options.validation = &data();
  const auto reports = run.trainer->fit(data(), options);
  std::size_t best = 0;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    best = *reports[i].validation->accuracy > *reports[best].validation->accuracy ? i : best;
  }
  CHECK(steps_in(folder / "acc.best.st") == static_cast<std::int64_t>(5 * (best + 1)));
  check_refused(
      [&] { run.trainer->fit(data(), options_with({.path = folder / "x", .best = BestBy::loss})); },
      {"checkpoint.best needs FitOptions::validation"});
}

TEST_CASE("the best checkpoint has the weights of its epoch where early stopping ends the run") {
  SmallRun run;
  const auto loss = [left = std::make_shared<double>(9), net = run.model.get()](
                        const Tensor& output, const Tensor& targets) {
    return net->training() ? cross_entropy(output, targets) : Tensor::full({}, --*left);
  };
  Trainer trainer{*run.model, loss, *run.optimizer};
  const TempFolder folder;
  EarlyStopping stopping(*run.model, {.patience = 2, .min_delta = 100, .restore_best = true});
  FitOptions options = options_with({.path = folder / "run.st", .best = BestBy::loss});
  options.validation = &data();
  options.early_stopping = &stopping;
  std::vector<std::vector<float>> weights;
  options.on_epoch = [&](const EpochReport&) {
    weights.push_back(run.model->parameters()[0].value().to_vector<float>());
    return true;
  };
  trainer.fit(data(), options);
  REQUIRE(weights.size() == 3);  // each a little better than the one before, and never by 100
  const auto in_file = [&](const char* name) {
    return read_safetensors(folder / name).tensors.at("model.0.weight").to_vector<float>();
  };
  CHECK(in_file("run.best.st") == weights[2]);
  CHECK(in_file("run.st") == weights[2]);
  CHECK(run.model->parameters()[0].value().to_vector<float>() == weights[0]);
}

TEST_CASE("the newest is a file of its own where the name of the best is a link") {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "real");
  std::ofstream(folder / "real/best.st") << "something older";
  std::filesystem::create_symlink(folder / "real/best.st", folder / "run.best.st");
  SmallRun run;
  const auto loss = [grows = std::make_shared<double>(0), net = run.model.get()](
                        const Tensor& output, const Tensor& targets) {
    return net->training() ? cross_entropy(output, targets) : Tensor::full({}, ++*grows);
  };
  FitOptions options = options_with({.path = folder / "run.st", .best = BestBy::loss});
  options.validation = &data();
  Trainer{*run.model, loss, *run.optimizer}.fit(data(), options);
  CHECK(steps_in(folder / "real/best.st") == 5);
  CHECK(steps_in(folder / "run.st") == 20);
}

TEST_CASE("runs that write to one path at once do not get into each other's way") {
  const TempFolder folder;
  FitOptions options = options_with(
      {.path = folder / "run.st", .every_steps = 1, .keep = 3, .best = BestBy::accuracy});
  options.validation = &data();
  std::vector<SmallRun> runs(4);
  std::vector<std::string> errors(runs.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          runs[i].trainer->fit(data(), options);
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
  }
  CHECK(errors == std::vector<std::string>(runs.size()));
}

TEST_CASE("a signal that comes during the last save is told") {
  struct Raises : Stateful {
    bool now = false;
    void visit_state(StateVisitor& visitor) override {
      std::int64_t nothing = 0;
      visitor.number("nothing", nothing);
      if (now) {
        std::raise(SIGINT);
      }
    }
  } part;
  const TempFolder folder;
  SmallRun run;
  FitOptions options = options_with({.path = folder / "run.st"});
  options.parts = {{"part", &part}};
  options.on_epoch = [&](const EpochReport& report) {
    part.now = report.epoch == 4;
    return true;
  };
  const auto reports = run.trainer->fit(data(), options);
  REQUIRE(reports.size() == 4);
  CHECK(reports.back().stopped_by == SIGINT);
}

TEST_CASE("a resumed run knows the best validation of before") {
  const TempFolder folder;
  const auto fit = [&](std::int64_t epochs, double validation, bool resume) {
    SmallRun run;
    const auto loss = [&](const Tensor& output, const Tensor& targets) {
      return run.model->training() ? cross_entropy(output, targets) : Tensor::full({}, validation);
    };
    Trainer trainer{*run.model, loss, *run.optimizer};
    FitOptions options = options_with({.path = folder / "run", .best = BestBy::loss});
    options.epochs = epochs;
    options.validation = &data();
    options.resume = resume ? folder / "run" : std::filesystem::path();
    trainer.fit(data(), options);
    return steps_in(folder / "run.best");
  };
  CHECK(fit(1, 1, false) == 5);
  CHECK(fit(2, 2, true) == 5);
  CHECK(fit(3, 0.5, true) == 15);
}

TEST_CASE("a loss that is no number ends the run with step, rate and the last good checkpoint") {
  const TempFolder folder;
  NanRun run({8});
  check_refused([&] { run.trainer->fit(data(), options_with({.path = folder / "run"})); },
                {"the loss is nan at step 8 with learning rate 0.01;",
                 "; the last good checkpoint is " + (folder / "run").string() + ", of step 5"});
  CHECK(steps_in(folder / "run") == 5);
  NanRun first({1});
  const std::string sentence =
      sentence_of([&] { first.trainer->fit(data(), options_with({.path = folder / "none"})); });
  CHECK(has(sentence, "nan at step 1"));
  CHECK_FALSE(has(sentence, "checkpoint"));
}

TEST_CASE("weights that are no numbers at a checkpoint end the run as a loss does") {
  const TempFolder folder;
  SmallRun run;
  FitOptions options = options_with({.path = folder / "run"});
  options.on_epoch = [&](const EpochReport& report) {
    if (report.epoch == 2) {
      run.model->parameters()[0].value().detach().fill(INFINITY);
    }
    return true;
  };
  check_refused([&] { run.trainer->fit(data(), options); },
                {"0.weight of the model holds", "the last good checkpoint is", "of step 5"});
  CHECK(steps_in(folder / "run") == 5);
}

TEST_CASE("rolled back, a run is one whose rate was lowered at the checkpoint") {
  const TempFolder folder;
  NanRun run({8});
  FitOptions options = options_with({.path = folder / "run", .roll_backs = 1});
  const auto reports = run.trainer->fit(data(), options);
  SmallRun other;
  options.checkpoint.reset();
  options.on_epoch = [&](const EpochReport& report) {
    if (report.epoch == 1) {
      other.optimizer->set_lr(0.005);
    }
    return true;
  };
  CHECK((run.bytes(reports) == other.bytes(other.trainer->fit(data(), options))));
  CHECK(reports[0].roll_backs == 0);
  CHECK(reports[1].roll_backs == 1);
  CHECK(reports[2].roll_backs == 0);
}

TEST_CASE("with a schedule, its rates are lowered") {
  const TempFolder folder;
  const auto half = [](const TrainingTime& time) { return time.step < 5 ? 1.0 : 0.5; };
  NanRun run({6});
  FitOptions options = options_with({.path = folder / "run", .roll_backs = 1});
  options.schedule = [](double) { return 1.0; };
  const auto reports = run.trainer->fit(data(), options);
  CHECK(run.optimizer->lr() == 0.005);
  run.optimizer->set_lr(0.01);
  SmallRun other;
  options.checkpoint.reset();
  options.schedule = half;
  CHECK((run.bytes(reports) == other.bytes(other.trainer->fit(data(), options))));
}

TEST_CASE("a run goes back as often as it may, to its beginning too, each time slower") {
  const TempFolder folder;
  // Twice in the first epoch, twice in the second; so much is allowed.
  NanRun run({2, 4, 12, 14});
  FitOptions options = options_with({.path = folder / "run", .roll_backs = 4});
  options.epochs = 2;
  const auto reports = run.trainer->fit(data(), options);
  CHECK(run.optimizer->lr() == 0.01 / 16);
  CHECK(reports[0].roll_backs == 2);
  CHECK(reports[1].roll_backs == 2);
  CHECK(run.optimizer->steps() == 10);

  NanRun once_more({2, 4, 12, 14});
  options.checkpoint->roll_backs = 3;
  check_refused([&] { once_more.trainer->fit(data(), options); },
                {"nan at step 7 with learning rate 0.00125", "of step 5"});
  // What a resumed run has done counts.
  NanRun resumed({2});
  options.resume = folder / "run";
  options.checkpoint->roll_backs = 2;
  check_refused([&] { resumed.trainer->fit(data(), options); }, {"nan at step 7", "of step 5"});
}

TEST_CASE("child: a run that is rolled back" * doctest::skip()) {
  const TempFolder folder;
  NanRun run({8});
  run.trainer->fit(data(), options_with({.path = folder / "run", .roll_backs = 3}));
}

TEST_CASE("a roll back is told") {
  const ChildOutput child = run_child("SINTER_LOG=warn", "child: a run that is rolled back");
  CHECK(child.passed);
  CHECK(child.says("the loss is nan at step 8 with learning rate 0.01;"));
  CHECK(child.says(", of step 5, and on with 0.5 times its learning rate (1 of 3)"));
  CHECK(child.count("went back to checkpoint") == 1);
}

TEST_CASE("options out of range, and parts that are the Trainer's") {
  const TempFolder folder;
  SmallRun run;
  const auto refused = [&](const CheckpointOptions& checkpoint,
                           std::initializer_list<std::string_view> words) {
    check_refused([&] { run.trainer->fit(data(), options_with(checkpoint)); }, words);
  };
  const auto path = folder / "run";
  refused({}, {"checkpoint.path is empty"});
  refused({.path = path, .every_epochs = -1}, {"every_epochs", "got -1"});
  refused({.path = path, .every_steps = -2}, {"every_steps", "got -2"});
  refused({.path = path, .keep = 0}, {"keep must be at least 1, got 0"});
  refused({.path = path, .roll_backs = -1}, {"roll_backs", "got -1"});
  refused({.path = path, .roll_back_factor = 0}, {"roll_back_factor", "(0, 1]", "got 0"});
  refused({.path = folder / "none" / "run"}, {"cannot write", "none/run", "No such file"});
  FitOptions options = options_with({.path = path});
  LoopPosition position;
  options.parts = {{"trainer", &position}};
  check_refused([&] { run.trainer->fit(data(), options); }, {"\"trainer\"", "Trainer's own"});
  options.parts = {};
  options.resume = folder / "no such file";
  check_refused([&] { run.trainer->fit(data(), options); }, {"no such file", "cannot be opened"});
}

TEST_CASE("a checkpoint of other batches, another seed or another precision is refused") {
  const TempFolder folder;
  SmallRun run;
  FitOptions options = options_with({.path = folder / "run"});
  options.seed = 4;
  run.trainer->fit(data(), options);
  options.resume = folder / "run";
  const auto refused = [&](auto change, std::initializer_list<std::string_view> words) {
    FitOptions changed = options;
    change(changed);
    SmallRun other;
    const std::string before = other.bytes({});
    check_refused([&] { other.trainer->fit(data(), changed); }, words);
    CHECK((other.bytes({}) == before));
  };
  refused([](FitOptions& o) { o.batch_size = 8; },
          {"\"trainer\" was training on 70 items in 5 batches of 16, shuffled, without a schedule, "
           "and is training on 70 items in 9 batches of 8"});
  refused([](FitOptions& o) { o.seed = 5; }, {"trainer.seed is 4, expected 5"});
  refused([](FitOptions& o) { o.autocast = DType::bfloat16; }, {"without a schedule, in bfloat16"});
  refused([](FitOptions& o) { o.schedule = cosine(); }, {"with a schedule"});
  refused([](FitOptions& o) { o.autocast = DType::float16; }, {"holds no state of \"scaler\""});
}

}  // namespace
