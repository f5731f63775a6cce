// A run that was stopped and resumed is the run that was not, byte for byte.
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "../runtime/sentence.h"
#include "checkpoint_run.h"
#include "data_files.h"

using namespace sinter;
using namespace sinter::testing;

namespace {

constexpr std::int64_t epochs = 3, batches = 5;

struct Case {
  MakeOptimizer make = make_adam;
  FitOptions options = {};
  bool plateau = false;
  Device device = Device::cpu();
};

// The options of one call; the plateau is the run's own.
struct Called {
  FitOptions options;
  std::unique_ptr<ReduceOnPlateau> plateau;

  Called(const Case& of, SmallRun& run) : options(of.options) {
    options.epochs = epochs;
    options.batch_size = 16;
    options.progress = false;
    if (of.plateau) {
      plateau =
          std::make_unique<ReduceOnPlateau>(*run.optimizer, ReduceOnPlateauOptions{.patience = 0});
      options.parts = {{"plateau", plateau.get()}};
      if (options.validate_every > 0) {
        options.on_validation = [&lower = *plateau](const ValidationReport& report) {
          lower.step(report.evaluation.loss + static_cast<double>(report.step));
        };
        return;
      }
      options.on_epoch = [&lower = *plateau](const EpochReport& report) {
        lower.step(report.validation->loss + static_cast<double>(report.epoch));
        return true;
      };
    }
  }
};

const TensorDataset& data() {
  static const TensorDataset all = clouds(70, 12, 5);  // 4 batches of 16, one of 6
  return all;
}

std::string uninterrupted(const Case& of) {
  SmallRun run(of.make, 3, of.device);
  Called called(of, run);
  return run.bytes(run.trainer->fit(data(), called.options));
}

// Stops after each step in turn, and resumes in a program that has another seed and another rate.
void check_every_stop(const Case& of, std::int64_t every = 1) {
  const std::string wanted = uninterrupted(of);
  const TempFolder folder;
  for (std::int64_t stop = 1; stop <= epochs * batches; stop += every) {
    CAPTURE(stop);
    const auto path = folder / "run.safetensors";
    {
      SmallRun run(of.make, 3, of.device);
      Called called(of, run);
      called.options.checkpoint = CheckpointOptions{.path = path, .every_epochs = 0};
      run.stop_after(stop);
      const auto reports = run.trainer->fit(data(), called.options);
      REQUIRE(reports.size() == static_cast<std::size_t>((stop + batches - 1) / batches));
      CHECK(reports.back().stopped_by == SIGINT);
      CHECK(reports.back().items == ((stop - 1) % batches == 4 ? 70 : 16 * (stop % batches)));
    }
    SmallRun run(of.make, 99, of.device);
    run.optimizer->set_lr(0.7);
    Called called(of, run);
    called.options.resume = path;
    const auto reports = run.trainer->fit(data(), called.options);
    CHECK(reports.back().stopped_by == 0);
    CHECK((run.bytes(reports) == wanted));
  }
}

template <class O, class Options>
MakeOptimizer maker(Options options) {
  return [options](Parameters parameters) {
    return std::make_unique<O>(std::move(parameters), options);
  };
}

}  // namespace

TEST_CASE("a run stopped after any step and resumed gives the bytes of one that was not") {
  SUBCASE("Adam, validated") { check_every_stop({.options = {.validation = &data()}}); }
  SUBCASE("SGD with dampened momentum, whose first step differs") {
    check_every_stop(
        {.make = maker<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.1})});
  }
  SUBCASE("a schedule") { check_every_stop({.options = {.schedule = cosine(0.2, 0.1)}}); }
  SUBCASE("a plateau") { check_every_stop({.options = {.validation = &data()}, .plateau = true}); }
  SUBCASE("a plateau that looks within epochs") {
    check_every_stop({.options = {.validation = &data(), .validate_every = 2}, .plateau = true});
  }
  SUBCASE("bfloat16") { check_every_stop({.options = {.autocast = DType::bfloat16}}, 4); }
  SUBCASE("float16, whose first steps overflow") {
    check_every_stop({.options = {.autocast = DType::float16,
                                  .scaler = {.init_scale = 0x1p60, .growth_interval = 2}}});
  }
  SUBCASE("float16, whose scale grows after four steps, over what overflows") {
    check_every_stop({.options = {.autocast = DType::float16,
                                  .scaler = {.init_scale = 0x1p18, .growth_interval = 4}}});
  }
  SUBCASE("a seed and a norm") {
    check_every_stop({.options = {.seed = 5, .max_grad_norm = 0.1}}, 3);
  }
}

TEST_CASE("each optimizer is resumed with all that it keeps") {
  SUBCASE("SGD without state") { check_every_stop({.make = maker<SGD>(SGDOptions{})}, 6); }
  SUBCASE("amsgrad") {
    check_every_stop({.make = maker<Adam>(AdamOptions{.lr = 0.01, .amsgrad = true})}, 6);
  }
  SUBCASE("AdamW") { check_every_stop({.make = maker<AdamW>(AdamWOptions{.lr = 0.01})}, 6); }
  SUBCASE("RMSprop") {
    check_every_stop({.make = maker<RMSprop>(RMSpropOptions{.momentum = 0.5, .centered = true})},
                     6);
  }
  SUBCASE("Adagrad") {
    check_every_stop({.make = maker<Adagrad>(AdagradOptions{.lr = 0.05, .lr_decay = 0.1})}, 6);
  }
  SUBCASE("NAdam") { check_every_stop({.make = maker<NAdam>(NAdamOptions{})}, 6); }
  SUBCASE("RAdam") { check_every_stop({.make = maker<RAdam>(RAdamOptions{.lr = 0.01})}, 6); }
}

namespace {

// All that a run leaves behind goes on to the same end.
void check_every_checkpoint(const Case& of) {
  const std::string wanted = uninterrupted(of);
  const TempFolder folder;
  SmallRun run(of.make, 3, of.device);
  Called called(of, run);
  called.options.checkpoint =
      CheckpointOptions{.path = folder / "run.st", .every_steps = 2, .keep = 20};
  CHECK((run.bytes(run.trainer->fit(data(), called.options)) == wanted));
  // Two in each epoch and one after it.
  for (int k = 0; k <= 9; ++k) {
    const auto path = folder / (k == 0 ? "run.st" : "run." + std::to_string(k) + ".st");
    CAPTURE(path);
    CHECK(std::filesystem::exists(path) == (k < 9));
    if (k < 9) {
      SmallRun other(of.make, 50, of.device);
      Called again(of, other);
      again.options.resume = path;
      CHECK((other.bytes(other.trainer->fit(data(), again.options)) == wanted));
    }
  }
}

}  // namespace

TEST_CASE("checkpoints within epochs change nothing, and any of them goes on to the same end") {
  check_every_checkpoint({.options = {.validation = &data(), .schedule = cosine(0.1)}});
}

TEST_CASE("a run of two epochs that is resumed for three is one of three") {
  const std::string wanted = uninterrupted({});
  const TempFolder folder;
  SmallRun first;
  Called two({}, first);
  two.options.epochs = 2;
  two.options.checkpoint = CheckpointOptions{.path = folder / "run"};
  first.trainer->fit(data(), two.options);
  SmallRun second(make_adam, 8);
  Called three({}, second);
  three.options.resume = folder / "run";
  CHECK((second.bytes(second.trainer->fit(data(), three.options)) == wanted));
  // And one that was complete is complete.
  SmallRun third(make_adam, 9);
  two.options.resume = folder / "run";
  const auto reports = third.trainer->fit(data(), two.options);
  CHECK(reports.size() == 2);
  CHECK(third.optimizer->steps() == 2 * batches);
  check_refused(
      [&] {
        two.options.epochs = 1;
        third.trainer->fit(data(), two.options);
      },
      {"checkpoint", "trainer.epochs_done is 2, expected 0 to 1"});
}

TEST_CASE("a loop of one's own is resumed in the midst of an epoch") {
  const TempFolder folder;
  const auto path = folder / "run";
  // Ends after `most` steps in all, as a killed program would.
  const auto train = [&](SmallRun& run, bool resume, std::int64_t most) {
    LoopPosition at;
    const CheckpointParts parts{{"optimizer", run.optimizer.get()}, {"position", &at}};
    if (resume) {
      load_checkpoint(path, *run.model, parts);
    }
    DataLoader loader(data(), {.batch_size = 16, .seed = 2});
    for (; at.epoch < epochs; at = LoopPosition(at.epoch + 1)) {
      loader.set_epoch(at.epoch, at.batch);
      for (const auto& [inputs, labels] : loader) {
        Tape tape;
        tape.backward(cross_entropy((*run.model)(inputs), labels));
        run.optimizer->step();
        ++at.batch;
        if (run.optimizer->steps() == most) {
          save_checkpoint(path, *run.model, parts);
          return;
        }
      }
    }
  };
  SmallRun whole;
  train(whole, false, 1000);
  for (const std::int64_t stop : {1, 4, 5, 7, 15}) {
    CAPTURE(stop);
    SmallRun begun, resumed(make_adam, 77);
    train(begun, false, stop);
    train(resumed, true, 1000);
    CHECK((resumed.bytes({}) == whole.bytes({})));
  }
}

TEST_CASE("SIGTERM stops as well, and what handled signals before does so again") {
  static int handled = 0;
  handled = 0;
  struct sigaction own = {}, before = {};
  own.sa_handler = [](int) { ++handled; };
  ::sigaction(SIGTERM, &own, &before);
  const TempFolder folder;
  SmallRun run;
  Called called({}, run);
  const auto fit = [&](bool on_signal, std::int64_t times) {
    called.options.checkpoint = CheckpointOptions{.path = folder / "run", .on_signal = on_signal};
    called.options.on_epoch = [times](const EpochReport&) {
      for (std::int64_t i = 0; i < times; ++i) {
        std::raise(SIGTERM);
      }
      return true;
    };
    return run.trainer->fit(data(), called.options);
  };
  const auto stopped = fit(true, 1);
  CHECK(stopped.size() == 1);
  CHECK(stopped.back().stopped_by == SIGTERM);
  CHECK(handled == 0);
  fit(true, 3);  // the first is the run's, the others the caller's
  CHECK(handled == 2);
  CHECK(fit(false, 1).size() == 3);  // nobody asked for it
  CHECK(handled == 5);
  std::raise(SIGTERM);
  CHECK(handled == 6);
  ::sigaction(SIGTERM, &before, nullptr);
}

TEST_CASE("CUDA: any checkpoint goes on to the end of a run that was not stopped") {
  if (!has_gpu()) {
    return;
  }
  for (const bool capture : {false, true}) {
    CAPTURE(capture);
    check_every_checkpoint(
        {.options = {.validation = &data(), .schedule = cosine(0.2), .capture = capture},
         .device = Device::cuda()});
    check_every_checkpoint({.options = {.autocast = DType::float16,
                                        .scaler = {.init_scale = 0x1p60, .growth_interval = 2},
                                        .capture = capture},
                            .device = Device::cuda()});
  }
}
