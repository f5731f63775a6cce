// When a run ends that no longer gets better, and with which weights.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "data_files.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// The step with which it ends, counted from 1; 0 if it does not.
int ends_after(const EarlyStoppingOptions& options, const std::vector<double>& metrics) {
  Sequential model{Linear{1, 1}};
  EarlyStopping stopping(model, options);
  int step = 0;
  for (const double metric : metrics) {
    ++step;
    if (!stopping.step(metric)) {
      return step;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("a run ends with as many metrics in a row as patience has that are no better") {
  // Lightning's and Keras's count: with patience 3 the third bad one is the last.
  CHECK(ends_after({.patience = 3}, {5, 4, 4, 4.5, 4}) == 5);
  CHECK(ends_after({.patience = 3}, {5, 4, 4, 4.5, 3.9, 4, 4, 3.8}) == 0);
  CHECK(ends_after({.patience = 1}, {5, 5}) == 2);
  CHECK(ends_after({.patience = 2, .min_delta = 0.5}, {5, 4.6, 4.6, 1}) == 3);
  CHECK(ends_after({.maximise = true, .patience = 2}, {0.1, 0.2, 0.15, 0.2}) == 4);
  CHECK(ends_after({.maximise = true, .patience = 2}, {-3, -2, -1, 0}) == 0);
  CHECK(ends_after({.patience = 2}, {NAN, NAN}) == 2);
  CHECK(ends_after({.patience = 2}, {NAN, 1, NAN, 0.5, HUGE_VAL, HUGE_VAL}) == 6);
}

TEST_CASE("the weights and buffers of the best metric come back") {
  Sequential model{Linear{2, 1, {.bias = false}}, BatchNorm1d{1}};
  Tensor weight = model.parameters()[0].value().detach();
  EarlyStopping stopping(model, {.patience = 2, .restore_best = true});
  stopping.restore_best();  // nothing yet
  const std::vector<double> metrics{3, 1, 2, 2};
  bool goes_on = true;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    CHECK(goes_on);
    weight.fill(static_cast<double>(i));
    model.buffers()[0].value.fill(10.0 * static_cast<double>(i));
    goes_on = stopping.step(metrics[i]);
  }
  CHECK_FALSE(goes_on);
  CHECK(weight.to_vector<float>() == std::vector<float>{3, 3});  // the latest, for a checkpoint
  stopping.restore_best();
  CHECK(weight.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(model.buffers()[0].value.to_vector<float>() == std::vector<float>{10});
  // Also where the run ended for another reason, on a model that has moved.
  model.to(DType::float64);
  model.parameters()[0].value().detach().fill(7);
  stopping.restore_best();
  CHECK(model.parameters()[0].value().to_vector<double>() == std::vector<double>{1, 1});

  Sequential other{Linear{1, 1, {.bias = false}}};
  EarlyStopping lean(other, {.patience = 1});
  lean.step(1);
  other.parameters()[0].value().detach().fill(5);
  CHECK_FALSE(lean.step(2));
  CHECK(other.parameters()[0].value().to_vector<float>() == std::vector<float>{5});
}

TEST_CASE("a checkpoint holds what it has seen, and the best weights") {
  Sequential model{Linear{1, 1, {.bias = false}}};
  Tensor weight = model.parameters()[0].value().detach();
  const EarlyStoppingOptions options{.patience = 3, .restore_best = true};
  EarlyStopping first(model, options), second(model, options);
  weight.fill(7);
  first.step(1);
  weight.fill(8);
  first.step(2);
  first.step(2);
  const testing::TempFolder folder;
  save_checkpoint(folder / "run.safetensors", model, {{"stopping", &first}});
  load_checkpoint(folder / "run.safetensors", model, {{"stopping", &second}});
  CHECK_FALSE(second.stopped());
  CHECK_FALSE(second.step(2));
  CHECK(second.stopped());
  second.restore_best();
  CHECK(weight.to_vector<float>()[0] == 7);
  EarlyStopping other(model, {.patience = 4, .restore_best = true});
  check_refused(
      [&] {
        load_checkpoint(folder / "run.safetensors", model, {{"stopping", &other}});
      },
      {"stopping", "patience"});
}

TEST_CASE("what EarlyStopping refuses") {
  Sequential model{Linear{1, 1}};
  check_refused([&] { EarlyStopping(model, {.patience = 0}); }, {"patience", "at least 1", "0"});
  check_refused([&] { EarlyStopping(model, {.min_delta = -1}); }, {"min_delta", "-1"});
  check_refused([&] { EarlyStopping(model, {.min_delta = NAN}); }, {"min_delta", "nan"});
}
