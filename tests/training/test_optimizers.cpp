// Optimizers: what they do to whole models. Their values against PyTorch are golden_check's
// subject.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "weights.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;

const std::vector<std::pair<const char*, Make>> every_optimizer{
    {"SGD",
     [](const Parameters& p) {
       return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9});
     }},
    {"Nesterov",
     [](const Parameters& p) {
       return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
     }},
    {"Adam",
     [](const Parameters& p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.01}); }},
    {"AdamW",
     [](const Parameters& p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.01}); }},
    {"amsgrad",
     [](const Parameters& p) {
       return std::make_unique<Adam>(p, AdamOptions{.lr = 0.01, .amsgrad = true});
     }},
    {"RMSprop",
     [](const Parameters& p) {
       return std::make_unique<RMSprop>(
           p, RMSpropOptions{.lr = 0.005, .alpha = 0.9, .momentum = 0.5, .centered = true});
     }},
    {"Adagrad",
     [](const Parameters& p) { return std::make_unique<Adagrad>(p, AdagradOptions{.lr = 0.1}); }},
    {"NAdam",
     [](const Parameters& p) { return std::make_unique<NAdam>(p, NAdamOptions{.lr = 0.01}); }},
    {"RAdam",
     [](const Parameters& p) { return std::make_unique<RAdam>(p, RAdamOptions{.lr = 0.01}); }},
};

struct Problem {
  Tensor inputs;
  Tensor labels;
};

// 32 points without any rule behind them: only a network that can memorise gets them right.
Problem random_labels() {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 8; ++j) {
      const double noise = std::sin(12.9898 * (8 * i + j)) * 43758.5453;
      x.push_back(static_cast<float>(2 * (noise - std::floor(noise)) - 1));
    }
    y.push_back(i * 7 % 5);
  }
  return {Tensor::from(x, {32, 8}), Tensor::from(y, {32})};
}

void train_step(Module& model, Optimizer& optimizer, const Problem& problem) {
  Tape tape;
  tape.backward(cross_entropy(model(problem.inputs), problem.labels));
  optimizer.step();
}

}  // namespace

TEST_CASE("every optimizer learns 32 items to 100 % in 200 steps") {
  const Problem problem = random_labels();
  for (const auto& [name, make] : every_optimizer) {
    CAPTURE(name);
    manual_seed(3);
    Sequential model{Linear{8, 64}, ReLU{}, Linear{64, 5}};
    const auto optimizer = make(model.parameters());
    for (int i = 0; i < 200; ++i) {
      train_step(model, *optimizer, problem);
    }
    CHECK(model.predict(problem.inputs).to_vector<std::int64_t>() ==
          problem.labels.to_vector<std::int64_t>());
    CHECK(optimizer->steps() == 200);
  }
}

TEST_CASE("the same seed gives the same bytes for any number of threads") {
  // Wide enough that products, passes and updates are cut into several pieces.
  const int threads_before = num_threads();
  std::vector<float> inputs(256 * 300);
  std::vector<std::int64_t> labels(256);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<float>(std::cos(0.37 * static_cast<double>(i)));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i % 10);
  }
  const Problem problem{Tensor::from(inputs, {256, 300}), Tensor::from(labels, {256})};
  for (const auto& [name, make] : every_optimizer) {
    CAPTURE(name);
    std::vector<float> first;
    for (const int threads : {1, 2, 4}) {
      set_num_threads(threads);
      manual_seed(11);
      Sequential model{Linear{300, 257}, ReLU{.drop_p = 0.1}, Linear{257, 130}, GELU{.drop_p = 0.2},
                       Linear{130, 10}};
      const auto optimizer = make(model.parameters());
      for (int i = 0; i < 5; ++i) {
        train_step(model, *optimizer, problem);
      }
      const std::vector<float> last = weights(model);
      if (first.empty()) {
        first = last;
      }
      CHECK(last == first);
    }
  }
  set_num_threads(threads_before);
}

TEST_CASE("a step without gradients is an error, and consumes them otherwise") {
  Sequential model{Linear{8, 5}};
  SGD optimizer{model.parameters(), {.lr = 0.1}};
  CHECK_THROWS_WITH_AS(optimizer.step(),
                       "SGD: no parameter has a gradient; call tape.backward(loss) before step()",
                       Error);
  CHECK(optimizer.steps() == 0);
  train_step(model, optimizer, random_labels());
  CHECK_THROWS_AS(optimizer.step(), Error);
}

TEST_CASE("gradients of several backwards add up until a step") {
  const Problem problem = random_labels();
  manual_seed(1);
  Sequential model{Linear{8, 5}};
  const Parameters parameters = model.parameters();
  const auto gradient_after = [&](int backwards) {
    for (int i = 0; i < backwards; ++i) {
      Tape tape;
      tape.backward(cross_entropy(model(problem.inputs), problem.labels));
    }
    auto out = parameters[0].grad().to_vector<float>();
    for (const NamedParameter& parameter : parameters) {
      Tensor value = parameter.value();
      value.clear_grad();
    }
    return out;
  };
  const auto once = gradient_after(1);
  const auto twice = gradient_after(2);
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(twice[i] == 2 * once[i]);
  }
}

TEST_CASE("a frozen layer and an unused one stay as they are") {
  const Problem problem = random_labels();
  Sequential model{Linear{8, 16}, ReLU{}, Linear{16, 5}};
  auto& frozen = dynamic_cast<Linear&>(model[0]);
  frozen.weight().set_trainable(false);
  Sequential unused{Linear{3, 3}};
  Parameters parameters = model.parameters();
  for (const NamedParameter& parameter : unused.parameters()) {
    parameters.push_back(parameter);
  }
  SGD optimizer{parameters, {.lr = 0.1, .momentum = 0.9}};
  const auto frozen_before = frozen.weight().value().to_vector<float>();
  const auto bias_before = frozen.bias().value().to_vector<float>();
  const auto unused_before = weights(unused);
  train_step(model, optimizer, problem);
  CHECK(frozen.weight().value().to_vector<float>() == frozen_before);
  CHECK(frozen.bias().value().to_vector<float>() != bias_before);
  CHECK(weights(unused) == unused_before);
}

TEST_CASE("an optimizer and its state follow the model to another type") {
  // In float64 with the same float32 start, momentum carries over: both runs stay close together.
  const Problem problem = random_labels();
  const Problem wide{problem.inputs.to(DType::float64), problem.labels};
  manual_seed(5);
  Sequential model{Linear{8, 16}, Tanh{}, Linear{16, 5}};
  Sequential twin = model;
  AdamW optimizer{model.parameters(), {.lr = 0.01}};
  AdamW twin_optimizer{twin.parameters(), {.lr = 0.01}};
  for (int i = 0; i < 10; ++i) {
    train_step(model, optimizer, problem);
    train_step(twin, twin_optimizer, problem);
  }
  model.to(DType::float64);
  for (int i = 0; i < 10; ++i) {
    train_step(model, optimizer, wide);
    train_step(twin, twin_optimizer, problem);
  }
  model.to(DType::float32);
  const auto a = weights(model);
  const auto b = weights(twin);
  CHECK(optimizer.steps() == 20);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-3));
  }
}

TEST_CASE("options out of range are refused where the optimizer is made") {
  Sequential model{Linear{2, 2}};
  const Parameters p = model.parameters();
  CHECK_THROWS_AS(SGD(p, {.lr = -1}), Error);
  CHECK_THROWS_AS(SGD(p, {.lr = std::numeric_limits<double>::quiet_NaN()}), Error);
  CHECK_THROWS_AS(SGD(p, {.momentum = -0.1}), Error);
  CHECK_THROWS_AS(SGD(p, {.nesterov = true}), Error);
  CHECK_THROWS_AS(SGD(p, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), Error);
  CHECK_THROWS_AS(Adam(p, {.beta1 = 1.0}), Error);
  CHECK_THROWS_AS(Adam(p, {.beta2 = -0.1}), Error);
  CHECK_THROWS_AS(AdamW(p, {.weight_decay = -1}), Error);
  CHECK_THROWS_AS(Adam({}, {}), Error);
}

TEST_CASE("an optimizer refuses what it cannot update, and is no value to copy") {
  Sequential model{Linear{2, 2}};
  Parameters twice = model.parameters();
  twice.push_back(twice.front());
  CHECK_THROWS_WITH_AS(SGD{twice}, "SGD: parameter 0.weight is given twice", Error);
  CHECK_THROWS_AS(SGD({{"x", nullptr}}), Error);
  CHECK_THROWS_AS(SGD({{"x", std::make_shared<ParameterState>()}}), Error);
  CHECK_THROWS_AS(SGD(model.parameters(), {.dampening = std::nan("")}), Error);
  static_assert(!std::is_copy_constructible_v<SGD>);
}

TEST_CASE("AdamW takes decay from the weight itself, Adam adds it to the gradient") {
  // One element, gradient 2: Adam's first step moves by lr whatever the gradient's size, so decay
  // inside the gradient changes nothing, and decay outside takes lr * decay * weight.
  for (const bool decoupled : {false, true}) {
    Sequential model{Linear{1, 1, {.bias = false}}};
    model.to(DType::float64);
    const Parameters p = model.parameters();
    Tensor weight = p[0].value().detach();
    weight.fill(3.0);
    std::unique_ptr<Optimizer> optimizer;
    if (decoupled) {
      optimizer = std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.1, .weight_decay = 0.5});
    } else {
      optimizer = std::make_unique<Adam>(p, AdamOptions{.lr = 0.1, .weight_decay = 0.5});
    }
    Tape tape;
    tape.backward(sum(model(Tensor::full({1, 1}, 2.0, DType::float64))));
    optimizer->step();
    const double expected = decoupled ? 3.0 * (1 - 0.1 * 0.5) - 0.1 : 3.0 - 0.1;
    CHECK(p[0].value().item() == doctest::Approx(expected).epsilon(1e-8));
  }
}
