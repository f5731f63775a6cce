// Training steps recorded and replayed on a GPU: the bits of eager ones, whatever changes between.
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "clouds.h"
#include "weights.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/sinter.h>

using namespace sinter;

namespace {

Batch batch_at(const Dataset& data, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    indices[static_cast<std::size_t>(i)] = (first + i) % data.size();
  }
  return data.batch(indices, Device::cuda());
}

// Steps on batches of changing size; midway learning rate, clipping and a dropout change.
template <class MakeOptimizer>
std::pair<std::vector<float>, std::vector<float>> run(bool capture, MakeOptimizer make) {
  const TensorDataset data = clouds(300, 12, 5);
  Sequential model = small_model();
  auto optimizer = make(model.parameters());
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  step.set_capture(capture);
  std::vector<float> losses;
  for (int i = 0; i < 24; ++i) {
    if (i == 9) {
      optimizer.set_lr(optimizer.lr() * 0.3);
    }
    if (i == 11) {
      step.set_max_grad_norm(0.05);
    }
    if (i == 13) {
      dynamic_cast<ActivationModule&>(model[1]).drop_p = 0.4f;
    }
    const std::int64_t size = i % 6 == 5 ? 7 : 16;
    losses.push_back(static_cast<float>(step(batch_at(data, 16 * i, size)).item()));
  }
  step.check();
  CHECK((step.replayed() > 10) == capture);
  return {losses, weights(model)};
}

}  // namespace

TEST_CASE("CUDA: replayed steps give the bits of eager ones") {
  if (!has_gpu()) {
    return;
  }
  const auto fallbacks = fallback_count();
  const auto same = [](auto make) {
    const auto eager = run(false, make);
    const auto replayed = run(true, make);
    CHECK(eager.first == replayed.first);
    CHECK(eager.second == replayed.second);
    CHECK(std::isfinite(eager.first.back()));
  };
  SUBCASE("SGD") {
    same([](Parameters p) { return SGD{std::move(p), {.lr = 0.05}}; });
  }
  SUBCASE("momentum with dampening, whose first step differs") {
    same([](Parameters p) {
      return SGD{std::move(p), {.lr = 0.05, .momentum = 0.9, .dampening = 0.1}};
    });
  }
  SUBCASE("Adam") {
    same([](Parameters p) { return Adam{std::move(p), {.lr = 0.01}}; });
  }
  SUBCASE("AdamW") {
    same([](Parameters p) { return AdamW{std::move(p), {.lr = 0.01}}; });
  }
  SUBCASE("amsgrad") {
    same([](Parameters p) { return Adam{std::move(p), {.lr = 0.01, .amsgrad = true}}; });
  }
  SUBCASE("RMSprop with all that it has") {
    same([](Parameters p) {
      return RMSprop{std::move(p), {.lr = 0.005, .alpha = 0.9, .momentum = 0.5, .centered = true}};
    });
  }
  SUBCASE("Adagrad, whose rate falls") {
    same([](Parameters p) { return Adagrad{std::move(p), {.lr = 0.05, .lr_decay = 0.1}}; });
  }
  SUBCASE("NAdam, whose momentum grows") {
    same([](Parameters p) { return NAdam{std::move(p), {.lr = 0.01}}; });
  }
  SUBCASE("RAdam, which divides from the sixth step on") {
    same([](Parameters p) { return RAdam{std::move(p), {.lr = 0.01}}; });
  }
  CHECK(fallback_count() == fallbacks);
}

TEST_CASE("CUDA: a Trainer that replays gives the bits of one that does not") {
  if (!has_gpu()) {
    return;
  }
  const TensorDataset data = clouds(330, 12, 5);
  const auto fit = [&](bool capture, bool on_device) {
    Sequential model = small_model();
    Adam optimizer{model.parameters(), {.lr = 0.01}};
    const auto reports = Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
        on_device ? data.to(Device::cuda()) : data, {.epochs = 3,
                                                     .batch_size = 16,
                                                     .validation = &data,
                                                     .schedule = warm_up(7, step_lr(1, 0.5)),
                                                     .capture = capture,
                                                     .progress = false});
    std::vector<double> numbers;
    for (const EpochReport& report : reports) {
      CHECK(report.items == 330);
      numbers.push_back(report.loss);
      numbers.push_back(report.validation->loss);
      numbers.push_back(*report.validation->accuracy);
    }
    CHECK(numbers[0] > numbers[6]);
    return std::pair{numbers, weights(model)};
  };
  const auto fallbacks = fallback_count();
  const auto eager = fit(false, false);
  CHECK(eager == fit(true, false));
  CHECK(eager == fit(true, true));
  CHECK(fallback_count() == fallbacks);
}

TEST_CASE("CUDA: the losses of the first 50 steps are the CPU's") {
  if (!has_gpu()) {
    return;
  }
  const TensorDataset data = clouds(400, 12, 5);
  const auto losses = [&](Device device) {
    Sequential model = small_model();
    model.to(device);
    SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9}};
    CapturedStep step{model, CrossEntropyLoss{}, optimizer};
    std::vector<double> out;
    for (int i = 0; i < 50; ++i) {
      const Batch batch = batch_at(data, 16 * i, 16);
      out.push_back(step({batch.inputs.to(device), batch.targets.to(device)}).item());
    }
    return out;
  };
  const auto on_cpu = losses(Device::cpu());
  const auto on_gpu = losses(Device::cuda());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    CAPTURE(i);
    CHECK(on_gpu[i] == doctest::Approx(on_cpu[i]).epsilon(5e-3));
  }
}

// A step that has been recorded and replayed.
struct Replaying {
  TensorDataset data = clouds(64, 12, 5);
  Sequential model = small_model();
  SGD optimizer{model.parameters(), {.lr = 0.05}};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};

  Replaying() {
    for (int i = 0; i < 3; ++i) {
      step(batch_at(data, 0, 16));
    }
    CHECK(step.replayed() == 2);
  }
};

TEST_CASE("CUDA: a bad label in a replayed step stops the updates and becomes an error") {
  if (!has_gpu()) {
    return;
  }
  Replaying run;
  auto& [data, model, optimizer, step] = run;
  step.check();
  const auto before = weights(model);
  Batch bad = batch_at(data, 0, 16);
  auto labels = bad.targets.to_vector<std::int64_t>();
  labels[11] = 5;
  bad.targets = Tensor::from(labels, {16}, Device::cuda());
  CHECK(std::isnan(step(bad).item()));
  step(batch_at(data, 0, 16));  // an update no more
  CHECK(weights(model) == before);
  std::string said;
  try {
    step.check();
  } catch (const Error& error) {
    said = error.what();
  }
  for (const char* word : {"the loss: label 5 at row 11", "[0, 5)", "labels start at 0"}) {
    CHECK_MESSAGE(said.find(word) != std::string::npos, said);
  }
  step(batch_at(data, 0, 16));
  step.check();
  CHECK(weights(model) != before);
}

// Losses and weights of 12 steps, with `change` made after the sixth.
template <class Change>
std::pair<std::vector<float>, std::vector<float>> changed(bool capture, Change change) {
  const TensorDataset data = clouds(300, 12, 5);
  Sequential model = small_model();
  SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9}};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  step.set_capture(capture);
  std::vector<float> losses;
  for (int i = 0; i < 12; ++i) {
    if (i == 6) {
      change(model, optimizer);
    }
    losses.push_back(static_cast<float>(step(batch_at(data, 16 * i, 16)).item()));
  }
  step.check();
  CHECK((step.replayed() > 0) == capture);
  const auto values = weights(model);
  set_matmul_precision(MatmulPrecision::high);
  return {losses, values};
}

TEST_CASE("CUDA: whatever changes between steps, nothing stale is replayed") {
  if (!has_gpu()) {
    return;
  }
  const auto same = [](auto change) { CHECK(changed(true, change) == changed(false, change)); };
  SUBCASE("precision") {
    same([](Sequential&, SGD&) { set_matmul_precision(MatmulPrecision::highest); });
  }
  SUBCASE("a frozen weight") {
    same([](Sequential& model, SGD&) {
      dynamic_cast<Linear&>(model[0]).weight().set_trainable(false);
    });
  }
  SUBCASE("eval mode of a layer") {
    same([](Sequential& model, SGD&) { model[1].eval(); });
  }
  SUBCASE("another generator") {
    same([](Sequential& model, SGD&) { model.set_generator(std::make_shared<Generator>(99)); });
  }
  SUBCASE("there and back") {
    same([](Sequential& model, SGD&) {
      model.to(Device::cpu());
      model.to(Device::cuda());
    });
  }
  SUBCASE("gradients left by a backward of one's own") {
    same([](Sequential& model, SGD&) {
      const Batch batch = batch_at(clouds(300, 12, 5), 3, 8);
      Tape tape;
      tape.backward(cross_entropy(model(batch.inputs), batch.targets));
    });
  }
  SUBCASE("values written by hand") {
    same([](Sequential& model, SGD&) {
      Tensor bias = dynamic_cast<Linear&>(model[4]).bias().value().detach();
      bias.fill(0.25);
    });
  }
}

TEST_CASE("CUDA: gradients left before the recording are used once") {
  if (!has_gpu()) {
    return;
  }
  const auto run = [](bool capture) {
    const TensorDataset data = clouds(300, 12, 5);
    Sequential model = small_model();
    SGD optimizer{model.parameters(), {.lr = 0.05}};
    CapturedStep step{model, CrossEntropyLoss{}, optimizer};
    step.set_capture(capture);
    for (int i = 0; i < 6; ++i) {
      if (i == 1) {
        Tape tape;
        const Batch batch = batch_at(data, 5, 16);
        tape.backward(cross_entropy(model(batch.inputs), batch.targets));
      }
      step(batch_at(data, 16 * i, 16));
    }
    return weights(model);
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("CUDA: a step that moved to the CPU runs there") {
  if (!has_gpu()) {
    return;
  }
  Replaying run;
  auto& [data, model, optimizer, step] = run;
  model.to(Device::cpu());
  const Batch batch = batch_at(data, 0, 16);
  for (int i = 0; i < 3; ++i) {
    CHECK(std::isfinite(
        step({batch.inputs.to(Device::cpu()), batch.targets.to(Device::cpu())}).item()));
  }
  CHECK(optimizer.steps() == 6);
}

TEST_CASE("CUDA: two threads train two models, each as if alone") {
  if (!has_gpu()) {
    return;
  }
  const TensorDataset data = clouds(330, 12, 5);
  const auto train = [&](Sequential& model) {
    Adam optimizer{model.parameters(), {.lr = 0.01}};
    Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
        data, {.epochs = 2, .batch_size = 16, .seed = 1, .progress = false});
    return weights(model);
  };
  Sequential first = small_model();
  Sequential alone = first;
  Sequential second = first;
  const auto expected = train(alone);
  std::vector<float> by_first, by_second;
  std::thread other([&] { by_first = train(first); });
  by_second = train(second);
  other.join();
  CHECK(by_first == expected);
  CHECK(by_second == expected);
}

TEST_CASE("CUDA: a step that reads a number on the host stays eager") {
  if (!has_gpu()) {
    return;
  }
  const TensorDataset data = clouds(64, 12, 5);
  Sequential model = small_model();
  SGD optimizer{model.parameters(), {.lr = 0.05}};
  const Loss reading = [](const Tensor& output, const Tensor& targets) {
    const Tensor loss = cross_entropy(output, targets);
    return loss.item() < 1e30 ? loss : loss * 0.0;
  };
  CapturedStep step{model, reading, optimizer};
  for (int i = 0; i < 4; ++i) {
    step(batch_at(data, 0, 16));
  }
  CHECK(step.replayed() == 0);
  CHECK_FALSE(step.captures());
  CHECK(optimizer.steps() == 4);
}
