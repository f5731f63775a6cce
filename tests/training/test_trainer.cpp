// Trainer::fit and evaluate: what a run reports, and that it is the loop one would write by hand.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "weights.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// Two classes told apart by the sign of the first coordinate.
TensorDataset signs(std::int64_t n) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < n; ++i) {
    const double t = std::sin(12.9898 * static_cast<double>(i + 1)) * 2;
    x.push_back(static_cast<float>(t));
    x.push_back(static_cast<float>(std::cos(7.0 * static_cast<double>(i))));
    y.push_back(t > 0 ? 1 : 0);
  }
  return {Tensor::from(x, {n, 2}), Tensor::from(y, {n})};
}

std::size_t resident_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("fit is the loop written by hand") {
  const TensorDataset data = signs(70);
  manual_seed(4);
  Sequential model{Linear{2, 16}, ReLU{.drop_p = 0.2}, Linear{16, 2}};
  Sequential by_hand = model;
  SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9}};
  const auto reports = Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
      data, {.epochs = 3, .batch_size = 64, .progress = false});

  SGD own{by_hand.parameters(), {.lr = 0.05, .momentum = 0.9}};
  DataLoader loader(data, {.batch_size = 64});
  for (int epoch = 0; epoch < 3; ++epoch) {
    double total = 0;
    for (const auto& [inputs, labels] : loader) {
      Tape tape;
      const Tensor loss = cross_entropy(by_hand(inputs), labels);
      tape.backward(loss);
      own.step();
      total += loss.item() * static_cast<double>(inputs.size(0));
    }
    // The last batch has 6 items of 70, and counts for 6.
    CHECK(reports[static_cast<std::size_t>(epoch)].loss ==
          doctest::Approx(total / 70).epsilon(1e-12));
    CHECK(reports[static_cast<std::size_t>(epoch)].items == 70);
  }
  CHECK(weights(model) == weights(by_hand));
  CHECK(reports.size() == 3);
}

TEST_CASE("fit holds gradients to max_grad_norm") {
  const TensorDataset data = signs(32);
  const auto first_step = [&](std::optional<double> max_norm) {
    manual_seed(4);
    Sequential model{Linear{2, 16}, ReLU{}, Linear{16, 2}};
    const std::vector<float> before = weights(model);
    SGD optimizer{model.parameters(), {.lr = 1}};
    Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
        data, {.batch_size = 32, .max_grad_norm = max_norm, .progress = false});
    const std::vector<float> after = weights(model);
    double squares = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      squares += std::pow(static_cast<double>(after[i]) - static_cast<double>(before[i]), 2);
    }
    return std::sqrt(squares);  // at a learning rate of 1, of the gradient
  };
  CHECK(first_step({}) > 0.1);
  CHECK(first_step(0.01) == doctest::Approx(0.01).epsilon(1e-3));
  CHECK(sentence_of([&] { first_step(-1.0); }) ==
        "Trainer::fit: max_grad_norm must be above 0, got -1");
}

TEST_CASE("a run learns, validates and repeats itself bit for bit") {
  const TensorDataset data = signs(500);
  const TensorDataset unseen = signs(600);
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    manual_seed(9);
    Sequential model{Linear{2, 16}, Tanh{.drop_p = 0.1}, Linear{16, 2}};
    Adam optimizer{model.parameters(), {.lr = 0.01}};
    Trainer trainer{model, CrossEntropyLoss{}, optimizer};
    const auto reports = trainer.fit(
        data, {.epochs = 10, .batch_size = 32, .validation = &unseen, .progress = false});
    REQUIRE(reports.back().validation);
    CHECK(reports.back().validation->items == 600);
    CHECK(*reports.back().validation->accuracy > 0.97);
    CHECK(reports.back().validation->loss < reports.front().validation->loss);
    CHECK(model.training());
    if (run == 0) {
      first = weights(model);
    }
    CHECK(weights(model) == first);
  }
}

TEST_CASE("evaluate weights its batches by their items, and counts accuracy for labels only") {
  const TensorDataset data = signs(10);
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters()};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const Evaluation in_one = trainer.evaluate(data, 10);
  const Evaluation in_threes = trainer.evaluate(data, 3);
  CHECK(in_threes.items == 10);
  CHECK(in_threes.loss == doctest::Approx(in_one.loss).epsilon(1e-6));
  CHECK(in_threes.accuracy == in_one.accuracy);
  const auto guesses = model.predict(data.inputs()).to_vector<std::int64_t>();
  const auto labels = data.targets().to_vector<std::int64_t>();
  int correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    correct += guesses[i] == labels[i] ? 1 : 0;
  }
  CHECK(*in_one.accuracy == doctest::Approx(correct / 10.0));

  const TensorDataset regression(data.inputs(), data.inputs());
  CHECK_FALSE(Trainer(model, MSELoss{}, optimizer).evaluate(regression).accuracy.has_value());
}

TEST_CASE("a schedule scales the rate and leaves it as it was") {
  const TensorDataset data = signs(64);
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters(), {.lr = 0.5}};
  std::vector<double> asked;
  Trainer{model, CrossEntropyLoss{}, optimizer}.fit(data, {.epochs = 2,
                                                           .batch_size = 32,
                                                           .schedule =
                                                               [&](double progress) {
                                                                 asked.push_back(progress);
                                                                 return 0.1;
                                                               },
                                                           .progress = false});
  CHECK(asked == std::vector<double>{0, 0.25, 0.5, 0.75});
  CHECK(optimizer.lr() == 0.5);

  const auto s = [rate = cosine(0.2, 0.1)](double progress) {
    return rate({.progress = progress});
  };
  CHECK(s(0.0) == 0.0);
  CHECK(s(0.1) == doctest::Approx(0.5));
  CHECK(s(0.2) == doctest::Approx(1.0));
  CHECK(s(0.6) == doctest::Approx(0.55));
  CHECK(s(1.0) == doctest::Approx(0.1));
  CHECK_THROWS_AS(cosine(1.0), Error);
  CHECK_THROWS_AS(cosine(0.0, -1.0), Error);
}

TEST_CASE("targets that are no labels of the output's rows have no accuracy") {
  const TensorDataset data(Tensor::zeros({8, 2}), Tensor::zeros({8}, DType::int64));
  // An output of one row for eight targets.
  struct Pool : Module {
    Tensor forward(const Tensor& x) override { return rows(x, 0, 1); }
  };
  Pool model;
  Sequential other{Linear{2, 2}};
  SGD optimizer{other.parameters()};
  const auto loss = [](const Tensor& y, const Tensor&) { return mean(y); };
  CHECK_FALSE(Trainer(model, loss, optimizer).evaluate(data).accuracy.has_value());
}

TEST_CASE("on_epoch ends a run") {
  const TensorDataset data = signs(64);
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters()};
  const auto reports = Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
      data, {.epochs = 5, .progress = false, .on_epoch = [](const EpochReport& report) {
               return report.epoch < 2;
             }});
  CHECK(reports.size() == 2);
}

TEST_CASE("a loss that is no number stops the run with step and rate") {
  Tensor inputs = Tensor::full({4, 2}, 1.0);
  inputs.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const TensorDataset data(inputs, Tensor::from<std::int64_t>({0, 1, 0, 1}, {4}));
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters(), {.lr = 0.25}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const auto before = weights(model);
  try {
    trainer.fit(data, {.batch_size = 4, .progress = false});
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.find("nan at step 1 with learning rate 0.25") != std::string::npos);
  }
  CHECK(weights(model) == before);
}

TEST_CASE("after a run that ended with an error the next one starts clean") {
  Tensor inputs = Tensor::full({4, 2}, 1.0);
  inputs.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const TensorDataset bad(inputs, Tensor::from<std::int64_t>({0, 1, 0, 1}, {4}));
  const TensorDataset good = signs(64);
  manual_seed(6);
  Sequential model{Linear{2, 8}, Tanh{}, Linear{8, 2}};
  Sequential twin = model;
  SGD optimizer{model.parameters(), {.lr = 0.1}};
  SGD own{twin.parameters(), {.lr = 0.1}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  // A loss that is finite while its gradient is not yet consumed: the backward pass has run.
  const auto throwing = [](const Tensor& x, const Tensor& y) -> Tensor {
    const Tensor loss = cross_entropy(x, y);
    Tape::current()->backward(loss);
    throw Error("half way");
  };
  CHECK_THROWS_AS((Trainer{model, throwing, optimizer}.fit(good, {.progress = false})), Error);
  CHECK_THROWS_AS(trainer.fit(bad, {.batch_size = 4, .progress = false}), Error);
  model.generator()->set_state(0, 0);
  trainer.fit(good, {.epochs = 2, .progress = false});
  Trainer{twin, CrossEntropyLoss{}, own}.fit(good, {.epochs = 2, .progress = false});
  CHECK(weights(model) == weights(twin));
}

TEST_CASE("every call of fit shuffles anew") {
  class Recorder : public Dataset {
   public:
    std::int64_t size() const override { return 6; }
    Batch get(std::int64_t i) const override {
      seen.push_back(i);
      return {Tensor::zeros({2}), Tensor::from<std::int64_t>({0}, {})};
    }
    mutable std::vector<std::int64_t> seen;
  };
  const Recorder data;
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters()};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  trainer.fit(data, {.batch_size = 3, .seed = 1, .progress = false});
  trainer.fit(data, {.batch_size = 3, .seed = 1, .progress = false});
  const auto first = permutation(6, 1, 0);
  const auto second = permutation(6, 1, 1);
  std::vector<std::int64_t> expected(first);
  expected.insert(expected.end(), second.begin(), second.end());
  CHECK(data.seen == expected);
}

TEST_CASE("what a data set throws reaches the caller of fit") {
  class Broken : public Dataset {
   public:
    std::int64_t size() const override { return 8; }
    Batch get(std::int64_t i) const override {
      if (i == 5) {
        throw std::runtime_error("item 5 cannot be read");
      }
      return {Tensor::zeros({2}), Tensor::from<std::int64_t>({0}, {})};
    }
  };
  const Broken data;
  Sequential model{Linear{2, 2}};
  SGD optimizer{model.parameters()};
  CHECK_THROWS_WITH_AS(
      (Trainer{model, CrossEntropyLoss{}, optimizer}.fit(data, {.progress = false})),
      "item 5 cannot be read", std::runtime_error);
}

TEST_CASE("workers fetch for fit, which trains to the same bytes") {
  // Where batches were fetched.
  struct Watched : TensorDataset {
    Watched(const TensorDataset& data) : TensorDataset(data) {}
    Batch batch(std::span<const std::int64_t> indices, Device device) const override {
      on_caller += std::this_thread::get_id() == caller ? 1 : 0;
      ++all;
      return TensorDataset::batch(indices, device);
    }
    std::thread::id caller = std::this_thread::get_id();
    mutable std::atomic<int> on_caller{0}, all{0};
  };
  std::vector<float> first;
  for (const int workers : {0, 1, 3}) {
    const Watched data{signs(70)};
    manual_seed(4);
    Sequential model{Linear{2, 16}, ReLU{.drop_p = 0.2}, Linear{16, 2}};
    SGD optimizer{model.parameters(), {.lr = 0.05}};
    Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
        data, {.epochs = 3, .batch_size = 16, .workers = workers, .progress = false});
    CHECK(data.all == 3 * 5);
    CHECK(data.on_caller == (workers == 0 ? 3 * 5 : 0));
    first = first.empty() ? weights(model) : first;
    CHECK(weights(model) == first);
  }
}

TEST_CASE("memory stays flat over 10,000 steps") {
  const TensorDataset data = signs(32);
  Sequential model{Linear{2, 16}, ReLU{.drop_p = 0.1}, Linear{16, 2}};
  SGD optimizer{model.parameters(), {.lr = 0.01}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const auto run = [&](std::int64_t steps) {
    trainer.fit(data, {.epochs = steps, .batch_size = 32, .progress = false});
  };
  run(100);
  const PoolStats pool = pool_stats(Device::cpu());
  const std::size_t resident = resident_bytes();
  run(9900);
  CHECK(pool_stats(Device::cpu()).held + pool_stats(Device::cpu()).in_use <=
        pool.held + pool.in_use);
  // The allocator of the system may keep a page or two more; a leak of one byte a step would not
  // fit, were it of tensors or nodes, which are hundreds of bytes.
  // Memory checkers, which want SINTER_POOL=off, keep freed memory on purpose.
  if (std::getenv("SINTER_POOL") == nullptr) {
    CHECK(resident_bytes() <= resident + 512 * 1024);
  }
}
