// What recorded steps cost a GPU: memory and kernels.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "clouds.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/runtime/graph.h>
#include <sinter/sinter.h>

using namespace sinter;

TEST_CASE("CUDA: device memory stays flat over replays") {
  if (!has_gpu()) {
    return;
  }
  const TensorDataset data = clouds(330, 12, 5).to(Device::cuda());
  Sequential model = small_model();
  Adam optimizer{model.parameters(), {.lr = 0.001}};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  std::vector<std::int64_t> order(64);
  std::iota(order.begin(), order.end(), 0);
  const auto several = [&](int times) {
    for (int i = 0; i < times; ++i) {
      step(data, order, 16);
    }
    step.check();
    const PoolStats stats = pool_stats(Device::cuda());
    return stats.in_use + stats.held;
  };
  const auto before = several(4);
  CHECK(several(40) == before);
}

TEST_CASE("CUDA large: 20,000 replayed steps leave device memory as it was") {
  if (!has_gpu()) {
    return;
  }
  const TensorDataset data = clouds(1024, 12, 5).to(Device::cuda());
  Sequential model = small_model();
  SGD optimizer{model.parameters(), {.lr = 0.001, .momentum = 0.9}};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  std::vector<std::int64_t> order(1024);
  std::iota(order.begin(), order.end(), 0);
  const auto steps = [&](std::int64_t count) {
    for (std::int64_t done = 0; done < count; done += 64) {
      step(data, order, 16);
    }
    step.check();
    const PoolStats stats = pool_stats(Device::cuda());
    return stats.in_use + stats.held;
  };
  const auto before = steps(256);
  CHECK(steps(20'000) == before);
  CHECK(step.replayed() > 20'000);
}

TEST_CASE("CUDA: a step with L small hidden layers is at most 2 L + 1 kernels") {
  if (!has_gpu()) {
    return;
  }
  const auto fallbacks = fallback_count();
  std::uint32_t state = 5;
  const auto up_to = [&state](std::int64_t most) {  // from 1 on
    state = state * 1664525u + 1013904223u;
    return 1 + static_cast<std::int64_t>(state >> 8) % most;
  };
  const std::vector<std::string> activations{"relu", "gelu",    "silu",       "tanh",    "mish",
                                             "elu",  "sigmoid", "leaky_relu", "softplus"};
  for (int trial = 0; trial < 12; ++trial) {
    const std::int64_t hidden = up_to(4), rows = up_to(300), classes = 1 + up_to(31);
    std::int64_t width = up_to(300);
    const std::int64_t features = width;
    std::string layers;
    for (std::int64_t l = 0; l < hidden; ++l) {
      const std::int64_t next = up_to(300);
      const auto& name = activations[static_cast<std::size_t>(up_to(9) - 1)];
      layers += text("linear(", width, ", ", next, ") -> ", name, "(drop_p=0.", up_to(3), ") -> ");
      width = next;
    }
    layers += text("linear(", width, ", ", classes, ")");
    CAPTURE(layers);
    CAPTURE(rows);
    manual_seed(4);
    Sequential model = Sequential::parse(layers);
    model.to(Device::cuda());
    const std::unique_ptr<Optimizer> optimizer =
        trial % 2 == 0 ? std::unique_ptr<Optimizer>(std::make_unique<SGD>(
                             model.parameters(), SGDOptions{.lr = 0.1, .momentum = 0.9}))
                       : std::make_unique<Adam>(model.parameters(), AdamOptions{.lr = 0.01});
    const Batch batch = clouds(rows, features, classes)
                            .to(Device::cuda())
                            .batch(
                                [&] {
                                  std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
                                  std::iota(all.begin(), all.end(), 0);
                                  return all;
                                }(),
                                Device::cuda());
    const auto step = [&] {
      Tape tape;
      tape.backward(model.cross_entropy(batch.inputs, batch.targets, {}));
      optimizer->step();
    };
    step();  // the optimizer's state is made
    Graph graph(Device::cuda());
    graph.record(step);
    CHECK(graph.kernels() > 0);
    CHECK(graph.kernels() <= 2 * hidden + 1);
  }
  CHECK(fallback_count() == fallbacks);
}
