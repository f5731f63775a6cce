// Train and eval mode, and dropout over a whole model.
#include <cmath>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

const Tensor& input() {
  static const Tensor x = tensor({40, 8}, 1.0, 1, DType::float32);
  return x;
}

Sequential nest() {
  Sequential model{Linear{8, 8}, Tanh{.drop_p = 0.5}};
  model.add(Sequential{Linear{8, 8}, Sequential{ReLU{.drop_p = 0.5}, Dropout{.p = 0.5}}});
  return model;
}

// The same layers without dropout.
Sequential dry_nest() {
  Sequential model{Linear{8, 8}, Tanh{}};
  model.add(Sequential{Linear{8, 8}, ReLU{}});
  return model;
}

TEST_CASE("eval reaches dropout in nested containers") {
  Sequential model = nest();
  CHECK(model.training());
  CHECK_FALSE(same(model(input()), model(input())));
  model.eval();
  const Tensor y = model(input());
  CHECK(same(model(input()), y));  // two forwards are bit-equal
  Sequential dry = dry_nest();
  const Parameters from = model.parameters();
  const Parameters to = dry.parameters();
  REQUIRE(from.size() == to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    Tensor value = to[i].value().detach();
    value.copy_from(from[i].value());
  }
  CHECK(same(dry(input()), y));  // and equal the network without dropout
  model.train();
  CHECK_FALSE(same(model(input()), y));
  detail::for_each_module(model, [](const std::string&, Module& m) { CHECK(m.training()); });
  model.train(false);
  detail::for_each_module(model, [](const std::string&, Module& m) { CHECK_FALSE(m.training()); });
}

TEST_CASE("a layer that is added later takes the model's mode") {
  Sequential model{Linear{8, 8}};
  model.eval();
  model.add(ReLU{.drop_p = 0.5}).add(Dropout{}).add(Sequential{Dropout{}, Tanh{.drop_p = 0.5}});
  detail::for_each_module(model, [](const std::string&, Module& m) { CHECK_FALSE(m.training()); });
  CHECK(same(model(input()), model(input())));
  dynamic_cast<Sequential&>(model[3]).add(Dropout{});
  CHECK(same(model(input()), model(input())));
  model.train();
  CHECK_FALSE(same(model(input()), model(input())));
  Sequential training{Linear{8, 8}};
  Sequential part{Dropout{}};
  part.eval();
  training.add(part);
  CHECK(training[1].training());
}

TEST_CASE("p = 0 draws nothing, p = 1 gives zeros") {
  Sequential none{ReLU{.drop_p = 0}, Dropout{.p = 0}};
  CHECK(same(none(input()), relu(input())));
  CHECK(none.generator()->next_call() == 0);
  Sequential all{Linear{8, 8}, Tanh{.drop_p = 1}};
  Tape tape;
  const Tensor y = all(input());
  CHECK(doubles(y) == Numbers(320, 0.0));
  tape.backward(sum(y));
  for (const NamedParameter& parameter : all.parameters()) {
    CHECK(doubles(parameter.grad()) ==
          Numbers(static_cast<std::size_t>(parameter.value().numel()), 0.0));
  }
}

TEST_CASE("the mean is kept over a million values") {
  constexpr std::int64_t n = 1'000'000;
  const Tensor x = Tensor::full({n}, 1.0);
  for (const double p : {0.1, 0.5, 0.9}) {
    Sequential model{Dropout{.p = p}};
    double total = 0;
    std::int64_t dropped = 0;
    for (const float y : model(x).to_vector<float>()) {
      total += y;
      dropped += y == 0 ? 1 : 0;
    }
    // Five standard deviations of n Bernoulli draws, and as many of the mean of the scaled values.
    const double deviation = std::sqrt(p * (1 - p) / n);
    CHECK(std::abs(static_cast<double>(dropped) / n - p) < 5 * deviation);
    CHECK(std::abs(total / n - 1) < 5 * deviation / (1 - p));
  }
}

TEST_CASE("layers and steps have masks of their own, and a seed gives them again") {
  const auto masks = [](std::uint64_t seed) {
    manual_seed(seed);
    Sequential model{Dropout{.p = 0.5}, Sigmoid{.drop_p = 0.5}};
    std::vector<Numbers> out;
    Tensor x = Tensor::full({200}, 1.0).set_requires_grad();
    for (int step = 0; step < 3; ++step) {
      Tape tape;
      const Tensor first = model[0](x);
      const Tensor second = model[1](x);
      out.push_back(doubles(first));
      out.push_back(doubles(second));
      tape.backward(sum(first) + sum(second));
    }
    return out;
  };
  const auto dropped = [](const Numbers& values) {
    Numbers out;
    for (const double value : values) {
      out.push_back(value == 0 ? 1 : 0);
    }
    return out;
  };
  const std::vector<Numbers> first = masks(7);
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(dropped(first[i]) != dropped(first[j]));
    }
  }
  CHECK(masks(7) == first);
  CHECK(masks(8) != first);
}

TEST_CASE("one generator serves a whole model, and the caller may give it") {
  Sequential model = nest();
  const auto& generator = model.generator();
  detail::for_each_module(
      model, [&](const std::string&, Module& m) { CHECK(m.generator() == generator); });
  const auto own = std::make_shared<Generator>(99);
  model.set_generator(own);
  detail::for_each_module(model,
                          [&](const std::string&, Module& m) { CHECK(m.generator() == own); });
  model(input());
  CHECK(own->next_call() == 3);
  own->set_state(5, 0);
  const Tensor y = model(input());
  own->set_state(5, 0);
  CHECK(same(model(input()), y));
  check_error([&] { model.set_generator(nullptr); }, {"set_generator", "null"});
}

TEST_CASE("a layer used twice in a step draws twice") {
  Sequential model{Dropout{.p = 0.5}};
  const Tensor x = Tensor::full({200}, 1.0);
  CHECK_FALSE(same(model(x), model(x)));
  CHECK(model.generator()->next_call() == 2);
}

TEST_CASE("EvalScope restores every mode as it was, also on the way out of an exception") {
  Sequential model = nest();
  dynamic_cast<Sequential&>(model[2])[0].eval();  // a frozen part among training ones
  const auto modes = [&model] {
    std::vector<bool> out;
    detail::for_each_module(model,
                            [&](const std::string&, Module& m) { out.push_back(m.training()); });
    return out;
  };
  const std::vector<bool> before = modes();
  Tape tape;
  {
    const EvalScope scope(model);
    CHECK(Tape::current() == nullptr);
    CHECK(modes() == std::vector<bool>(before.size(), false));
  }
  CHECK(Tape::current() == &tape);
  CHECK(modes() == before);
  check_error([&] { model.predict(Tensor::zeros({3, 9})); }, {"[..., 8]", "[3, 9]"});
  check_error([&] { model.predict_probabilities(Tensor::zeros({3, 9})); }, {"[3, 9]"});
  check_error([&] { model.summary({3, 9}); }, {"[3, 9]"});
  CHECK(Tape::current() == &tape);
  CHECK(modes() == before);
}

TEST_CASE("predict and predict_probabilities") {
  // Logits are the input, so that the right answers are known.
  Sequential model{Dropout{.p = 0.9}, Tanhshrink{}, Dropout{.p = 0.9}};
  const Tensor logits = Tensor::from({9.0f, 1.0f, 2.0f, 3.0f, 3.0f, -8.0f}, {2, 3});
  Tape tape;
  const Tensor classes = model.predict(logits);
  CHECK(classes.dtype() == DType::int64);
  CHECK(classes.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0});
  const Tensor probabilities = model.predict_probabilities(logits);
  const Numbers p = doubles(probabilities);
  const Numbers z = doubles(logits);
  for (std::size_t row = 0; row < 2; ++row) {
    double total = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      total += std::exp(z[3 * row + j] - std::tanh(z[3 * row + j]));
    }
    for (std::size_t j = 0; j < 3; ++j) {
      CHECK(p[3 * row + j] ==
            doctest::Approx(std::exp(z[3 * row + j] - std::tanh(z[3 * row + j])) / total)
                .epsilon(1e-6));
    }
  }
  CHECK(tape.size() == 0);
  CHECK(model.training());
  CHECK(model.generator()->next_call() == 0);
  // Parameters that need a gradient do not get in the way.
  Sequential trained{Linear{3, 4}, ReLU{.drop_p = 0.5}, Linear{4, 2}};
  CHECK(same(trained.predict_probabilities(logits), trained.predict_probabilities(logits)));
  CHECK(trained.predict(logits).shape() == Shape{2});
}

}  // namespace
}  // namespace sinter
