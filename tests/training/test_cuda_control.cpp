// Groups, micro-batches, averages and clipping in steps that a GPU replays: the bits of eager ones.
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "clouds.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/sinter.h>

using namespace sinter;

namespace {

std::vector<float> numbers(const std::vector<Tensor>& tensors) {
  std::vector<float> out;
  for (const Tensor& tensor : tensors) {
    const auto values = tensor.detach().to(Device::cpu()).to_vector<float>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

struct Options {
  bool groups = false;
  std::optional<std::int64_t> micro_batch = {};
  std::optional<double> max_value = {};
  bool ema = false;
  bool scaler = false;
};

// Weights, averages and losses of steps on a data set that lies on the device, one after the other
// or six in a graph, whose options change midway.
std::vector<float> run(bool capture, const Options& options) {
  const TensorDataset data = clouds(96, 12, 5).to(Device::cuda());
  Sequential model = small_model();
  const Parameters all = model.parameters();
  ParameterGroups groups = all;
  if (options.groups) {
    groups = {{.parameters = matching(all, "*.bias"), .lr = 0.04, .weight_decay = 0.0},
              {.parameters = matching(all, "*.weight")}};
  }
  AdamW optimizer{groups, {.lr = 0.01, .weight_decay = 0.1}};
  EMA ema(model, {.decay = 0.8, .warm_up = true});
  GradScaler scaler({.growth_interval = 4});
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  step.set_capture(capture);
  step.set_micro_batch(options.micro_batch);
  step.set_max_grad_value(options.max_value);
  step.set_ema(options.ema ? &ema : nullptr);
  step.set_grad_scaler(options.scaler ? &scaler : nullptr);
  std::vector<std::int64_t> order(96);
  std::iota(order.begin(), order.end(), 0);
  std::vector<Tensor> results;
  for (int call = 0; call < 5; ++call) {
    if (call == 3 && options.groups) {
      optimizer.set_weight_decay(1, 0.5);
      optimizer.set_lr_scale(0, 0.5);
    }
    const std::vector<double> lrs{0.01, 0.02, 0.005, 0.01, 0.01, 0.03};
    results.push_back(step(data, order, 16, lrs));
  }
  step.check();
  CHECK((step.replayed() > 20) == capture);
  CHECK(ema.updates() == (options.ema ? 30 : 0));
  for (const NamedParameter& parameter : all) {
    results.push_back(parameter.value());
  }
  for (const NamedBuffer& average : ema.averages()) {
    results.push_back(average.value);
  }
  return numbers(results);
}

void check_same(const Options& options) {
  if (has_gpu()) {
    const auto fallbacks = fallback_count();
    CHECK(run(false, options) == run(true, options));
    CHECK(fallback_count() == fallbacks);
  }
}

}  // namespace

TEST_CASE("CUDA: replayed steps of groups give the bits of eager ones") {
  check_same({.groups = true});
}

TEST_CASE("CUDA: replayed micro-batches give the bits of eager ones") {
  check_same({.micro_batch = 4});
  check_same({.micro_batch = 6});
}

TEST_CASE("CUDA: replayed averages give the bits of eager ones") { check_same({.ema = true}); }

TEST_CASE("CUDA: gradients held to a value in a graph give the bits of eager ones") {
  check_same({.max_value = 0.01});
}

TEST_CASE("CUDA: all of it in one graph gives the bits of eager steps") {
  check_same({.groups = true, .micro_batch = 5, .max_value = 0.01, .ema = true});
  check_same({.groups = true, .micro_batch = 4, .max_value = 0.01, .ema = true, .scaler = true});
}

TEST_CASE("CUDA: micro-batches and averages are those of the CPU") {
  if (!has_gpu()) {
    return;
  }
  const ExactProducts exact;
  const TensorDataset data = clouds(30, 12, 5);
  const auto trained = [&](Device device) {
    manual_seed(3);
    Sequential model{Linear{12, 33}, Tanh{}, Linear{33, 5}};
    model.to(device);
    SGD optimizer{weight_decay_groups(model.parameters()), {.lr = 0.1, .weight_decay = 0.1}};
    EMA ema(model, {.decay = 0.5});
    CapturedStep step{model, CrossEntropyLoss{}, optimizer};
    step.set_micro_batch(8);
    step.set_max_grad_value(0.05);
    step.set_ema(&ema);
    for (int i = 0; i < 10; ++i) {
      step({data.inputs().to(device), data.targets().to(device)});
    }
    std::vector<Tensor> averages;
    for (const NamedBuffer& average : ema.averages()) {
      averages.push_back(average.value);
    }
    return numbers(averages);
  };
  const auto on_cpu = trained(Device::cpu()), on_gpu = trained(Device::cuda());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    REQUIRE(on_gpu[i] == doctest::Approx(on_cpu[i]).epsilon(1e-3));
  }
}
