// The learning-rate range test, and that it leaves no trace.
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "clouds.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// Every byte that training changes.
std::vector<std::uint32_t> trace(Module& model, const Optimizer& optimizer) {
  std::vector<std::uint32_t> out;
  const auto add = [&out](const Tensor& tensor) {
    for (const double value : tensor.detach().to(DType::float64).to_vector<double>()) {
      std::uint32_t words[2];
      std::memcpy(words, &value, sizeof words);
      out.insert(out.end(), words, words + 2);
    }
  };
  for (const NamedParameter& parameter : model.parameters()) {
    add(parameter.value());
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    add(buffer.value);
  }
  for (const Tensor& state : optimizer.state()) {
    if (state.defined()) {
      add(state);
    }
  }
  out.push_back(static_cast<std::uint32_t>(optimizer.steps()));
  out.push_back(model.generator()->step());
  out.push_back(model.generator()->next_call());
  return out;
}

Sequential net() {
  manual_seed(6);
  Sequential model{Linear{4, 16}, BatchNorm1d{16}, ReLU{.drop_p = 0.2}, Linear{16, 3}};
  model.parameters();  // drawn by this seed
  return model;
}

void train(Module& model, Optimizer& optimizer, const TensorDataset& data) {
  Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
      data, {.epochs = 2, .batch_size = 16, .progress = false});
}

// One weight w from 1 on, with the loss (w x)^2 / 2 for x = 1: each step makes it (1 - lr) w.
struct Parabola {
  Sequential model{Linear{1, 1, {.bias = false}}};
  TensorDataset data{Tensor::full({4, 1}, 1), Tensor::zeros({4, 1})};
  Loss loss = [](const Tensor& y, const Tensor&) { return mean(y * y) * 0.5; };
  Parabola() { model.parameters()[0].value().detach().fill(1); }
};

}  // namespace

TEST_CASE("a part that has a generator of its own keeps its numbers") {
  Sequential model = net();
  model[2].set_generator(std::make_shared<Generator>(5));
  SGD optimizer{model.parameters(), {.lr = 0.1}};
  find_lr(model, CrossEntropyLoss{}, optimizer, clouds(40, 4, 3), {.steps = 10});
  CHECK(model[2].generator()->step() == 0);
  CHECK(model.generator()->step() == 0);
}

TEST_CASE("losses are those of training with rates that grow exponentially") {
  Parabola p;
  SGD optimizer{p.model.parameters(), {.lr = 0.3}};
  const auto found = find_lr(
      p.model, p.loss, optimizer, p.data,
      {.min_lr = 1e-3, .max_lr = 10, .steps = 9, .smoothing = 0.5, .diverge_threshold = 1e9});
  REQUIRE(found.points.size() == 9);
  double w = 1, average = 0;
  for (int i = 0; i < 9; ++i) {
    CAPTURE(i);
    const double lr = 1e-3 * std::pow(10.0, 0.5 * i);
    average = 0.5 * average + 0.5 * (w * w / 2);
    CHECK(found.points[static_cast<std::size_t>(i)].lr == doctest::Approx(lr).epsilon(1e-12));
    CHECK(found.points[static_cast<std::size_t>(i)].loss ==
          doctest::Approx(average / (1 - std::pow(0.5, i + 1))).epsilon(1e-5));
    w *= 1 - lr;
  }
  CHECK(optimizer.lr() == 0.3);
  CHECK(p.model.parameters()[0].value().to_vector<float>()[0] == 1);
}

TEST_CASE("the suggestion is where the loss falls fastest, and the test ends where it diverges") {
  Parabola p;
  SGD optimizer{p.model.parameters(), {.lr = 0.3}};
  const auto found = find_lr(p.model, p.loss, optimizer, p.data,
                             {.min_lr = 1e-4, .max_lr = 100, .steps = 60, .smoothing = 0});
  CHECK(found.points.size() < 60);  // from a rate of 2 on it grows
  CHECK(found.points.back().lr > 2);
  // By central differences over the closed form of the losses.
  std::vector<double> losses;
  double w = 1;
  for (int i = 0; i < 60; ++i) {
    losses.push_back(w * w / 2);
    w *= 1 - 1e-4 * std::pow(1e6, i / 59.0);
  }
  double least = 0, lr = 0;
  for (std::size_t i = 7; i + 2 < found.points.size(); ++i) {
    if (losses[i + 1] - losses[i - 1] < least) {
      least = losses[i + 1] - losses[i - 1];
      lr = 1e-4 * std::pow(1e6, static_cast<double>(i) / 59.0);
    }
  }
  REQUIRE(found.suggestion);
  CHECK(*found.suggestion == doctest::Approx(lr).epsilon(1e-9));
  CHECK(lr > 0.05);
  CHECK(lr < 1);

  // A loss that is the same everywhere has no slope.
  const Loss flat = [](const Tensor& y, const Tensor&) { return mean(y) * 0.0; };
  CHECK_FALSE(find_lr(p.model, flat, optimizer, p.data).suggestion);
}

TEST_CASE("nothing is different afterwards, and training goes on as if it had not been") {
  const TensorDataset data = clouds(50, 4, 3);
  for (const bool trained : {false, true}) {
    CAPTURE(trained);
    Sequential model = net(), reference = net();
    Adam optimizer{weight_decay_groups(model.parameters()), {.lr = 0.01, .weight_decay = 0.1}};
    Adam own{weight_decay_groups(reference.parameters()), {.lr = 0.01, .weight_decay = 0.1}};
    if (trained) {
      train(model, optimizer, data);
      train(reference, own, data);
    }
    static_cast<Module&>(model[2]).eval();
    const auto before = trace(model, optimizer);
    const auto found = find_lr(model, CrossEntropyLoss{}, optimizer, data, {.batch_size = 16});
    CHECK(found.points.size() > 20);
    const auto after = trace(model, optimizer);
    CHECK((!trained || before == after));  // state that was not there yet is made of zeros
    CHECK_FALSE(static_cast<Module&>(model[2]).training());
    CHECK(static_cast<Module&>(model[1]).training());
    CHECK(optimizer.lr() == 0.01);
    model.train();
    train(model, optimizer, data);
    train(reference, own, data);
    CHECK(trace(model, optimizer) == trace(reference, own));
  }
}

TEST_CASE("nothing is different where the test ends with an error, either") {
  const TensorDataset data = clouds(50, 4, 3);
  Sequential model = net();
  SGD optimizer{model.parameters(), {.lr = 0.01, .momentum = 0.9}};
  train(model, optimizer, data);
  const auto before = trace(model, optimizer);
  int calls = 0;
  const Loss fails = [&](const Tensor& y, const Tensor& t) {
    if (++calls == 5) {
      throw std::runtime_error("the fifth");
    }
    return cross_entropy(y, t);
  };
  CHECK_THROWS_AS(find_lr(model, fails, optimizer, data), std::runtime_error);
  CHECK(trace(model, optimizer) == before);
  CHECK_FALSE(has_gradient(model.parameters()[0]));

  // A loss that is no number ends it, and is not among the points.
  calls = 0;
  const Loss breaks = [&](const Tensor& y, const Tensor& t) {
    return cross_entropy(y, t) * (++calls < 4 ? 1.0 : NAN);
  };
  CHECK(find_lr(model, breaks, optimizer, data).points.size() == 3);
  CHECK(trace(model, optimizer) == before);
}

TEST_CASE("what find_lr refuses") {
  Parabola p;
  SGD optimizer{p.model.parameters(), {.lr = 0.3}};
  const auto refused = [&](const LrFinderOptions& options, const char* word) {
    check_refused([&] { find_lr(p.model, p.loss, optimizer, p.data, options); }, {"find_lr", word});
  };
  refused({.min_lr = 0}, "min_lr");
  refused({.min_lr = NAN}, "min_lr");
  refused({.min_lr = 1, .max_lr = 1}, "max_lr");
  refused({.max_lr = HUGE_VAL}, "max_lr");
  refused({.steps = 1}, "steps");
  refused({.smoothing = 1}, "smoothing");
  refused({.diverge_threshold = 1}, "diverge_threshold");
  check_refused([&] { find_lr(p.model, nullptr, optimizer, p.data); }, {"loss is empty"});
}
