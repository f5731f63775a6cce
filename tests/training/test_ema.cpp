// The moving average of weights: torch's formula, and what becomes of the model meanwhile.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "data_files.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

std::vector<double> values_of(Module& model) {
  std::vector<double> out;
  for (const NamedParameter& parameter : model.parameters()) {
    const auto values = parameter.value().detach().to(DType::float64).to_vector<double>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}
std::vector<double> values_of(const Buffers& tensors) {
  std::vector<double> out;
  for (const NamedBuffer& tensor : tensors) {
    const auto values = tensor.value.to(DType::float64).to_vector<double>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// Changes every weight by numbers of its own.
void change(Module& model, int step) {
  int element = 0;
  for (const NamedParameter& parameter : model.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(parameter.state->shape.numel()));
    for (double& value : values) {
      value = std::sin(1.7 * ++element + step);
    }
    Tensor to = parameter.value().detach();
    to.copy_from(Tensor::from(values, to.shape()).to(to.dtype()));
  }
}

Sequential net() { return Sequential{Linear{3, 5}, BatchNorm1d{5}, Linear{5, 2}}; }

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

}  // namespace

TEST_CASE("averages are torch's: the first weights, then decay * average + (1 - decay) * weights") {
  for (const bool warm_up : {false, true}) {
    for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
      CAPTURE(warm_up);
      CAPTURE(dtype);
      Sequential model = net();
      model.to(dtype);
      EMA ema(model, {.decay = 0.9, .warm_up = warm_up});
      std::vector<double> expected;
      for (int step = 0; step < 40; ++step) {
        change(model, step);
        ema.update();
        const auto weights = values_of(model);
        if (step == 0) {
          expected = weights;
        }
        const double decay = warm_up ? std::min(0.9, (1.0 + step) / (10.0 + step)) : 0.9;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] = decay * expected[i] + (1 - decay) * weights[i];
        }
      }
      CHECK(ema.updates() == 40);
      const double bound = dtype == DType::float64 ? 1e-15 : 1e-6;  // averages of 16 bits are wide
      CHECK(largest_difference(values_of(ema.averages()), expected) < bound);
      CHECK(ema.averages()[0].name == "0.weight");
    }
  }
}

TEST_CASE("small changes are not lost in a 16-bit model") {
  Sequential model{Linear{1, 1, {.bias = false}}};
  model.to(DType::bfloat16);
  Tensor weight = model.parameters()[0].value().detach();
  weight.fill(1);
  EMA ema(model, {.decay = 0.9999});
  ema.update();
  weight.fill(2);
  for (int i = 0; i < 100; ++i) {
    ema.update();
  }
  // bfloat16 has 1 and then 1.0078.
  CHECK(values_of(ema.averages())[0] == doctest::Approx(2 - std::pow(0.9999, 100)).epsilon(1e-5));
}

TEST_CASE("a model has its averages while they are applied, and its weights again afterwards") {
  Sequential model = net();
  EMA ema(model, {.decay = 0.5});
  SGD optimizer{model.parameters(), {.lr = 0.1}};
  for (int step = 0; step < 3; ++step) {
    change(model, step);
    ema.update();
  }
  const auto weights = values_of(model);
  const auto* address = model.parameters()[0].value().address();
  {
    const auto averaged = ema.apply();
    CHECK(values_of(model) == values_of(ema.averages()));
    CHECK(values_of(model) != weights);
    CHECK(model.parameters()[0].value().address() == address);  // as a recorded graph needs
  }
  CHECK(values_of(model) == weights);
  CHECK_THROWS_AS(
      [&] {
        const auto averaged = ema.apply();
        throw Error("in between");
      }(),
      Error);
  CHECK(values_of(model) == weights);
  // And where the model moved meanwhile.
  {
    const auto averaged = ema.apply();
    model.to(DType::float64);
  }
  CHECK(values_of(model) == weights);
}

TEST_CASE("averages are copied with the buffers of the model that they are of") {
  Sequential model = net(), other = net();
  EMA ema(model, {.decay = 0.5});
  check_refused([&] { ema.copy_to(other); }, {"EMA", "before the first update()"});
  check_refused([&] { (void)ema.apply(); }, {"EMA", "before the first update()"});
  model(Tensor::from({1.0f, 2.0f, 3.0f, 0.0f, 1.0f, 7.0f}, {2, 3}));  // running statistics
  change(model, 1);
  ema.update();
  change(model, 2);
  ema.update();
  const auto weights = values_of(model);
  ema.copy_to(other);
  CHECK(values_of(other) == values_of(ema.averages()));
  CHECK(values_of(other.buffers()) == values_of(model.buffers()));
  CHECK(values_of(model) == weights);
  ema.copy_to(model);
  CHECK(values_of(model) == values_of(ema.averages()));

  Sequential narrower{Linear{3, 4}, BatchNorm1d{4}, Linear{4, 2}}, shorter{Linear{3, 5}};
  check_refused([&] { ema.copy_to(narrower); }, {"EMA::copy_to", "0.weight [4, 3]", "[5, 3]"});
  check_refused([&] { ema.copy_to(shorter); }, {"EMA::copy_to", "2 parameters", "6"});
}

TEST_CASE("averages go on where they were, after a move and from a checkpoint") {
  Sequential model = net();
  EMA ema(model, {.decay = 0.75, .warm_up = true});
  const auto updates = [&](EMA& of, int from, int to) {
    for (int step = from; step < to; ++step) {
      change(model, step);
      of.update();
    }
  };
  updates(ema, 0, 4);
  const testing::TempFolder folder;
  save_checkpoint(folder / "run.safetensors", model, {{"ema", &ema}});
  EMA resumed(model, {.decay = 0.75, .warm_up = true}), other(model, {.decay = 0.5});
  load_checkpoint(folder / "run.safetensors", model, {{"ema", &resumed}});
  CHECK(resumed.updates() == 4);
  check_refused(
      [&] {
        load_checkpoint(folder / "run.safetensors", model, {{"ema", &other}});
      },
      {"ema", "decay"});
  updates(ema, 4, 8);
  updates(resumed, 4, 8);
  CHECK(values_of(ema.averages()) == values_of(resumed.averages()));

  // float16 lays parameters out at other distances than float32, the averages' type.
  const auto before = values_of(ema.averages());
  model.to(DType::float16);
  CHECK(values_of(ema.averages()) == before);
  model.to(DType::float32);
  CHECK(values_of(ema.averages()) == before);
}

TEST_CASE("a captured step updates its averages after each update of the weights") {
  Sequential model{Linear{3, 4}, ReLU{.drop_p = 0.2}, Linear{4, 2}};
  Sequential by_hand = model;
  SGD optimizer{model.parameters(), {.lr = 0.1}}, own{by_hand.parameters(), {.lr = 0.1}};
  EMA ema(model, {.decay = 0.5}), own_ema(by_hand, {.decay = 0.5});
  CapturedStep step{model, MSELoss{}, optimizer};
  step.set_ema(&ema);
  const Tensor x = Tensor::from({1.0f, -2.0f, 3.0f, 0.5f, 1.0f, 0.7f}, {2, 3});
  const Tensor y = Tensor::zeros({2, 2});
  for (int i = 0; i < 5; ++i) {
    step({x, y});
    Tape tape;
    tape.backward(mse_loss(by_hand(x), y));
    own.step();
    own_ema.update();
  }
  CHECK(ema.updates() == 5);
  CHECK(values_of(ema.averages()) == values_of(own_ema.averages()));
}

TEST_CASE("what an average refuses") {
  Sequential model = net();
  for (const double bad : {-0.1, 1.0, double{NAN}}) {
    check_refused([&] { EMA(model, {.decay = bad}); }, {"EMA: decay must lie in [0, 1), got"});
  }
  Sequential empty{ReLU{}};
  check_refused([&] { EMA{empty}; }, {"EMA", "no parameters"});
  dynamic_cast<Module&>(model[2]).to(DType::float64);
  check_refused([&] { EMA{model}; }, {"EMA: parameter", "float64", "one type"});
}
