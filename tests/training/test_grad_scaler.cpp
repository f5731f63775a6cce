// The loss scale of mixed precision: how it grows and shrinks, what a step that is left out leaves
// alone, and training in 16-bit types by the Trainer.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "../runtime/sentence.h"
#include "clouds.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// One weight whose gradient is `slope` times the weight's input, which the caller sets.
struct OneWeight {
  OneWeight() { net.parameters()[0].value().detach().fill(2.0); }
  // A step with the gradient `slope`; through `scaler` where there is one.
  void step(Optimizer& optimizer, float slope, GradScaler* scaler) {
    Tape tape;
    const Tensor loss = sum(net(Tensor::full({1, 1}, slope)));
    if (scaler == nullptr) {
      tape.backward(loss);
      optimizer.step();
      return;
    }
    tape.backward(scaler->scale(loss));
    scaler->step(optimizer);
    scaler->update();
  }
  float weight() { return net.parameters()[0].value().to_vector<float>()[0]; }

  Sequential net{Linear{1, 1, {.bias = false}}};
};

TEST_CASE("the scale halves at an overflow and doubles after an interval without") {
  OneWeight model;
  SGD optimizer(model.net.parameters(), {.lr = 0});
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  CHECK(scaler.scale_factor() == 8);
  // By torch.amp.GradScaler's rule: the count of clean steps starts anew after each change.
  const std::vector<float> slopes = {1, 1, inf, 1, 1, 1, 1, NAN, inf, 1};
  const std::vector<double> scales = {8, 8, 4, 4, 4, 8, 8, 4, 2, 2};
  std::int64_t skipped = 0;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    CAPTURE(i);
    model.step(optimizer, slopes[i], &scaler);
    skipped += std::isfinite(slopes[i]) ? 0 : 1;
    CHECK(scaler.scale_factor() == scales[i]);
    CHECK(scaler.skipped() == skipped);
  }
  CHECK(optimizer.steps() == 7);
  // It stays finite.
  GradScaler large({.init_scale = 0x1p127, .growth_interval = 1});
  model.step(optimizer, 0, &large);
  CHECK(large.scale_factor() == 0x1p127);
}

TEST_CASE("a step that overflows leaves weights, state and step count alone") {
  OneWeight with, without;
  Adam scaled(with.net.parameters(), {.lr = 0.1}), plain(without.net.parameters(), {.lr = 0.1});
  GradScaler scaler({.init_scale = 1024});
  for (const float slope : {0.5f, inf, -0.25f, inf, NAN, 0.125f}) {
    const float before = with.weight();
    with.step(scaled, slope, &scaler);
    if (std::isfinite(slope)) {
      without.step(plain, slope, nullptr);  // scales are powers of two: the same bits
    } else {
      CHECK(with.weight() == before);
    }
    CHECK(with.weight() == without.weight());
    CHECK(scaled.steps() == plain.steps());
  }
  for (std::size_t k = 0; k < plain.state().size(); ++k) {
    CHECK(scaled.state()[k].to_vector<float>() == plain.state()[k].to_vector<float>());
  }
}

TEST_CASE("gradients are held to a norm after they were divided by the scale") {
  OneWeight model;
  SGD optimizer(model.net.parameters(), {.lr = 1});
  GradScaler scaler;
  Tape tape;
  tape.backward(scaler.scale(sum(model.net(Tensor::full({1, 1}, 8)))));
  scaler.unscale(optimizer, 0.5);
  CHECK(std::abs(model.net.parameters()[0].grad().to_vector<float>()[0] - 0.5f) < 1e-6f);
  check_refused([&] { scaler.unscale(optimizer); }, {"GradScaler", "already", "update()"});
  scaler.step(optimizer);
  scaler.update();
  CHECK(std::abs(model.weight() - 1.5f) < 1e-6f);
}

TEST_CASE("the scale never becomes so small that its inverse is not a number") {
  OneWeight model;
  SGD optimizer(model.net.parameters(), {.lr = 1});
  GradScaler scaler({.init_scale = 0x1p-125});
  for (int step = 0; step < 5; ++step) {
    model.step(optimizer, inf, &scaler);
  }
  CHECK(scaler.scale_factor() == 0x1p-126);
  model.step(optimizer, 0x1p-2f, &scaler);
  CHECK(model.weight() == 1.75f);
}

TEST_CASE("what a GradScaler refuses") {
  check_refused([] { GradScaler({.init_scale = 0}); }, {"init_scale", "0"});
  check_refused([] { GradScaler({.init_scale = 1e39}); }, {"init_scale", "float32"});
  {
    OneWeight model, other;
    SGD first(model.net.parameters(), {}), second(other.net.parameters(), {});
    GradScaler scaler;
    Tape tape;
    tape.backward(scaler.scale(sum(model.net(Tensor::full({1, 1}, 1))) +
                               sum(other.net(Tensor::full({1, 1}, 1)))));
    scaler.step(first);
    check_refused([&] { scaler.step(first); }, {"already", "update()"});
    check_refused([&] { scaler.unscale(second); }, {"another optimizer", "of its own"});
  }
  {
    OneWeight model;
    model.net.to(DType::float16);
    SGD optimizer(model.net.parameters(), {});
    GradScaler scaler;
    Tape tape;
    tape.backward(scaler.scale(sum(model.net(Tensor::full({1, 1}, 1, DType::float16)))));
    check_refused([&] { scaler.step(optimizer); }, {"float16", "float32 parameters"});
  }
  check_refused([] { GradScaler({.growth_factor = 1}); }, {"growth_factor", "above 1"});
  check_refused([] { GradScaler({.growth_interval = 0}); }, {"growth_interval", "0"});
  check_refused([] { GradScaler({.backoff_factor = 1}); }, {"backoff_factor", "(0, 1)"});
  GradScaler scaler;
  check_refused([&] { scaler.scale(Tensor{}); }, {"GradScaler", "undefined"});
  check_refused([&] { scaler.update(); }, {"GradScaler", "update()", "after"});
  {
    OneWeight model;
    SGD optimizer(model.net.parameters(), {});
    Tape tape;
    tape.backward(sum(model.net(Tensor::full({1, 1}, 1))));
    check_refused([&] { scaler.step(optimizer); }, {"no loss was scaled", "scale(loss)"});
  }
  check_refused([&] { scaler.scale(Tensor::full({}, 1, DType::float64)); }, {"float64"});
}

struct Trained {
  std::vector<EpochReport> reports;
  std::vector<std::vector<float>> weights;
  std::int64_t steps;
};

Trained train(Device device, FitOptions options, double input_scale = 1,
              std::int64_t count = 1000) {
  manual_seed(3);
  Sequential model{Linear{12, 33}, GELU{.drop_p = 0.2}, Linear{33, 20}, ReLU{.drop_p = 0.1},
                   Linear{20, 5}};
  model.to(device);
  Adam optimizer(model.parameters(), {.lr = 0.01});
  const TensorDataset plain = clouds(count, 12, 5);
  std::vector<std::int64_t> items(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i] = static_cast<std::int64_t>(i);
  }
  const Batch batch = plain.batch(items, Device::cpu());
  const TensorDataset data{batch.inputs * input_scale, batch.targets};
  options.batch_size = 32;
  options.progress = false;
  options.validation = &data;
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  Trained out;
  out.reports = trainer.fit(data, options);
  out.steps = optimizer.steps();
  for (const NamedParameter& parameter : model.parameters()) {
    CHECK(parameter.value().dtype() == DType::float32);
    out.weights.push_back(parameter.value().to_vector<float>());
  }
  return out;
}

TEST_CASE("the Trainer trains in either type as well as in float32") {
  const double exact = *train(Device::cpu(), {.epochs = 4}).reports.back().validation->accuracy;
  CHECK(exact > 0.95);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    const Trained got = train(Device::cpu(), {.epochs = 4, .autocast = dtype});
    CHECK(*got.reports.back().validation->accuracy > exact - 0.02);
    CHECK(got.steps + got.reports[0].skipped + got.reports[1].skipped + got.reports[2].skipped +
              got.reports[3].skipped ==
          4 * 32);
  }
  check_refused([] { train(Device::cpu(), {.autocast = DType::float64}); },
                {"Autocast", "float16 or bfloat16", "float64"});
}

TEST_CASE("inputs that overflow float16's gradients cost some steps, and training goes on") {
  // Gradients of weights are float32, so those of the layers' outputs are what overflows.
  const Trained got =
      train(Device::cpu(),
            {.epochs = 2, .autocast = DType::float16, .scaler = {.init_scale = 0x1p24}}, 1e4);
  CHECK(got.reports[0].skipped > 0);
  CHECK(got.reports[0].skipped < 32);
  CHECK(std::isfinite(got.reports[1].loss));
  CHECK(got.reports[1].skipped < got.reports[0].skipped);
  for (const std::vector<float>& weights : got.weights) {
    for (const float weight : weights) {
      CHECK(std::isfinite(weight));
    }
  }
}

TEST_CASE("inputs that float16 cannot hold are an error, not an endless row of steps left out") {
  check_refused([] { train(Device::cpu(), {.autocast = DType::float16}, 1e6); },
                {"Trainer", "all 32 steps", "overflows float16", "bfloat16"});
}

TEST_CASE("an item that is not finite ends a float16 run before all gradients are zeros") {
  manual_seed(3);
  Sequential model{Linear{2, 2}};
  SGD optimizer(model.parameters(), {.lr = 0.1});
  Tensor inputs = Tensor::full({8, 2}, 1);
  inputs.data<float>()[0] = NAN;
  const TensorDataset data{inputs, Tensor::zeros({8}, DType::int64)};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const FitOptions options{
      .epochs = 100, .batch_size = 4, .autocast = DType::float16, .progress = false};
  check_refused([&] { trainer.fit(data, options); },
                {"Trainer", "again and again", "loss scale", "not finite"});
}

TEST_CASE("CUDA: captured steps in 16-bit types are the eager ones, those left out as well") {
  if (!has_gpu()) {
    return;
  }
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    // A scale that the first dozens of gradients overflow, more than one graph's steps, and that
    // grows back to where they do.
    FitOptions options{.epochs = 3, .autocast = dtype};
    options.scaler = {.init_scale = 0x1p60, .growth_interval = 7};
    // 31 whole batches and a rest; 33, the last of which runs alone, eagerly, after steps that a
    // graph left out.
    for (const std::int64_t count : {1000, 33 * 32}) {
      CAPTURE(count);
      options.capture = false;
      const Trained eager = train(Device::cuda(), options, 1, count);
      options.capture = true;
      const Trained captured = train(Device::cuda(), options, 1, count);
      CHECK(captured.weights == eager.weights);
      CHECK(captured.steps == eager.steps);
      for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        CAPTURE(epoch);
        CHECK(captured.reports[epoch].skipped == eager.reports[epoch].skipped);
        CHECK(*captured.reports[epoch].validation->accuracy ==
              *eager.reports[epoch].validation->accuracy);
      }
      CHECK((eager.reports[0].skipped > 17) == (dtype == DType::float16));
    }
  }
}

}  // namespace
