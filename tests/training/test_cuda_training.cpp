// Whole training runs on the GPU: they follow the CPU's, dropout on, repeat to the byte, and go on
// after the device ran out of memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// Ops without a CUDA kernel of their own run on the CPU, without a word.
struct Quiet {
  Quiet() { set_fallback_policy(FallbackPolicy::silent); }
  ~Quiet() { set_fallback_policy(FallbackPolicy::warn); }
};

constexpr std::int64_t items = 64;
constexpr std::int64_t features = 12;

std::vector<float> numbers() {
  std::vector<float> x(items * features);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 7919 % 1009) / 500.0f - 1.0f;
  }
  return x;
}
Tensor inputs() { return Tensor::from(numbers(), {items, features}); }
// Which of an item's first three numbers is the largest.
Tensor labels() {
  const std::vector<float> x = numbers();
  std::vector<std::int64_t> y;
  for (auto item = x.begin(); item != x.end(); item += features) {
    y.push_back(std::max_element(item, item + 3) - item);
  }
  return Tensor::from(y, {items});
}

Sequential model() {
  manual_seed(2);
  return Sequential{Linear{features, 33}, GELU{.drop_p = 0.2}, Linear{33, 17}, ReLU6{.drop_p = 0.1},
                    Linear{17, 3}};
}

// The losses of `steps` steps on batches whose sizes are odd.
template <class MakeOptimizer>
std::vector<double> losses(Device device, int steps, MakeOptimizer make_optimizer) {
  Sequential net = model();
  net.to(device);
  auto optimizer = make_optimizer(net.parameters());
  const Tensor x = inputs().to(device);
  const Tensor y = labels().to(device);
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t begin = step % 5;
    const std::int64_t end = items - step % 3;
    Tape tape;
    const Tensor loss = cross_entropy(net(x.view_rows(begin, end)), y.view_rows(begin, end));
    tape.backward(loss);
    optimizer.step();
    all.push_back(loss.item());
  }
  return all;
}

template <class MakeOptimizer>
void check_follows_cpu(MakeOptimizer make_optimizer) {
  const ExactProducts exact;
  const std::vector<double> there = losses(Device::cuda(), 50, make_optimizer);
  const std::vector<double> here = losses(Device::cpu(), 50, make_optimizer);
  for (std::size_t step = 0; step < here.size(); ++step) {
    CAPTURE(step);
    // Roundings grow from step to step. One differing element of one mask changes a loss by 1e-3
    // and more: some 64 * 50 elements make it.
    CHECK(std::abs(there[step] - here[step]) < 1e-4 * here[step]);
  }
  CHECK(here.back() < 0.9 * here.front());
}

}  // namespace

TEST_CASE("CUDA: fifty steps with dropout have the CPU's losses") {
  if (!has_gpu()) {
    return;
  }
  const Quiet quiet;
  check_follows_cpu([](const Parameters& p) { return SGD(p, {.lr = 0.1, .momentum = 0.9}); });
  check_follows_cpu([](const Parameters& p) { return Adam(p, {.lr = 0.01}); });
}

TEST_CASE("CUDA: the same seed gives the same bytes on every run") {
  if (!has_gpu()) {
    return;
  }
  const Quiet quiet;
  const auto run = [] {
    Sequential net = model();
    net.to(Device::cuda());
    Adam optimizer{net.parameters(), {.lr = 0.01}};
    const TensorDataset data(inputs(), labels());
    const auto reports = Trainer{net, CrossEntropyLoss{}, optimizer}.fit(
        data, {.epochs = 5, .batch_size = 10, .progress = false});
    CHECK(reports.back().loss < reports.front().loss);
    std::vector<float> weights;
    for (const NamedParameter& parameter : net.parameters()) {
      CHECK(parameter.value().device() == Device::cuda());
      const auto values = parameter.value().to_vector<float>();
      weights.insert(weights.end(), values.begin(), values.end());
    }
    return weights;
  };
  const std::vector<float> first = run();
  CHECK(std::ranges::all_of(first, [](float weight) { return std::isfinite(weight); }));
  CHECK(run() == first);
}

TEST_CASE("CUDA: a model learns its items in the 16-bit types too") {
  if (!has_gpu()) {
    return;
  }
  const Quiet quiet;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    Sequential net = model();
    net.to(dtype);
    net.to(Device::cuda());
    SGD optimizer{net.parameters(), {.lr = 0.1}};
    const Tensor x = inputs().to(dtype).to(Device::cuda());
    const Tensor y = labels().to(Device::cuda());
    std::vector<double> all;
    for (int step = 0; step < 200; ++step) {
      Tape tape;
      const Tensor loss = cross_entropy(net(x), y);
      tape.backward(loss);
      optimizer.step();
      all.push_back(loss.item());
    }
    CHECK(std::isfinite(all.back()));
    CHECK(all.back() < 0.9 * all.front());
  }
}

TEST_CASE("CUDA: after a batch for which there is no memory, a smaller one trains") {
  if (!has_gpu()) {
    return;
  }
  const Quiet quiet;
  // The input of 2^22 rows is 16 MiB, the first layer's output 2^44 bytes: more than any GPU has.
  manual_seed(3);
  Sequential net{Linear{1, 1 << 20}, ReLU{}, Linear{1 << 20, 3}};
  net.to(Device::cuda());
  SGD optimizer{net.parameters(), {.lr = 1e-6}};
  const auto step = [&](std::int64_t rows) {
    const Tensor x = Tensor::full({rows, 1}, 0.5, DType::float32, Device::cuda());
    const Tensor y = Tensor::zeros({rows}, DType::int64, Device::cuda());
    Tape tape;
    const Tensor loss = cross_entropy(net(x), y);
    tape.backward(loss);
    optimizer.step();
    return loss.item();
  };
  for (int round = 0; round < 2; ++round) {
    std::string sentence;
    try {
      step(1 << 22);
    } catch (const Error& error) {
      sentence = error.what();
    }
    CAPTURE(sentence);
    for (const char* part : {"cuda:0 out of memory: asked for 17592186044416 bytes", "free",
                             "in use by tensors", "held"}) {
      CHECK(sentence.find(part) != std::string::npos);
    }
    const double before = step(8);
    double after = before;
    for (int i = 0; i < 5; ++i) {
      after = step(8);
    }
    CHECK(std::isfinite(before));
    CHECK(after < before);
  }
  pool_trim(Device::cuda());
}
