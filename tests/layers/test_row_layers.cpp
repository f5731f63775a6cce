// Norms, softmax and gated linear units as a user writes them. Their values against PyTorch are
// golden_check's subject.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include <sinter/sinter.h>

namespace sinter {
namespace {

using namespace testing;

TEST_CASE("norms have torch's parameters, ones and zeros at first") {
  Sequential model{LayerNorm{5}, RMSNorm{5, {.eps = 1e-6}}, LayerNorm{Shape{5}, {.bias = false}},
                   LayerNorm{5, {.elementwise_affine = false}},
                   RMSNorm{5, {.elementwise_affine = false}}};
  std::vector<std::string> names;
  for (const NamedParameter& parameter : model.parameters()) {
    names.push_back(parameter.name);
    CHECK(parameter.value().shape() == Shape{5});
    CHECK(doubles(parameter.value()) ==
          std::vector<double>(5, parameter.name.ends_with("weight") ? 1 : 0));
  }
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "1.weight", "2.weight"});
  CHECK(model.text() ==
        "layer_norm(5) -> rms_norm(5, eps=1e-06) -> layer_norm(5, bias=false) -> "
        "layer_norm(5, elementwise_affine=false) -> rms_norm(5, elementwise_affine=false)");
  const Tensor x = tensor({3, 5}, 2.0, 1, DType::float32);
  CHECK(model(x).shape() == x.shape());
  check_error(
      [&] {
        model(tensor({3, 4}, 2.0, 1, DType::float32));
      },
      {"layer 0 of the model", "layer_norm", "[5]", "[3, 4]"});
  check_error([] { LayerNorm{0}; }, {"layer_norm", "normalized_shape", "[0]"});
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check_error([&] { LayerNorm{5, {.eps = bad}}; }, {"layer_norm", "eps"});
    check_error([&] { RMSNorm{5, {.eps = bad}}; }, {"rms_norm", "eps"});
  }
}

TEST_CASE("an activation behind a norm joins its pass") {
  const Tensor x = tensor({40, 6}, 2.0, 1, DType::float32);
  const auto run = [&x](Sequential model) {
    model.set_generator(std::make_shared<Generator>(5));
    Tape tape;
    const Tensor y = model(x);
    return std::pair{y.detach(), tape.size()};
  };
  const math::LeakyReLU slope{0.2};
  const auto own = run(Sequential{LayerNorm{6, {.act = slope, .drop_p = 0.3}},
                                  RMSNorm{6, {.act = math::GELU{}, .drop_p = 0.3}}});
  CHECK(std::ranges::count(doubles(own.first), 0.0) > 40);
  for (const auto& next :
       {run(Sequential{LayerNorm{6}, LeakyReLU{.act = slope, .drop_p = 0.3}, RMSNorm{6},
                       GELU{.drop_p = 0.3}}),
        run(Sequential{LayerNorm{6}, LeakyReLU{.act = slope}, Dropout{.p = 0.3}, RMSNorm{6}, GELU{},
                       Dropout{.p = 0.3}}),
        run(Sequential::parse("layer_norm(6, act=leaky_relu, negative_slope=0.2, drop_p=0.3) -> "
                              "rms_norm(6, act=gelu, drop_p=0.3)"))}) {
    CHECK(same(next.first, own.first));
    CHECK(next.second == own.second);
  }
  CHECK(own.second == 2);
  // One that has an activation takes no second, and one that has dropout alone none.
  LayerNorm tanh{6, {.act = math::Tanh{}}}, dropped{6, {.drop_p = 0.3}};
  CHECK(same(run(Sequential{tanh, ReLU{}}).first, relu(run(Sequential{tanh}).first)));
  CHECK(same(run(Sequential{dropped, ReLU{}}).first, relu(run(Sequential{dropped}).first)));
  check_error([&] { tanh.forward(x, math::ReLU{}, {}); }, {"layer_norm(6, act=tanh)", "its own"});
}

TEST_CASE("what stands behind a norm is in its text and in torch's names, and drops in training") {
  Sequential model{LayerNorm{4, {.bias = false, .act = math::LeakyReLU{0.2}, .drop_p = 0.1}},
                   RMSNorm{4, {.eps = 0.5, .act = math::SiLU{}}}, RMSNorm{4, {.drop_p = 0.5}},
                   Linear{4, 2}};
  const std::string text =
      "layer_norm(4, bias=false, act=leaky_relu, negative_slope=0.2, drop_p=0.1) -> "
      "rms_norm(4, eps=0.5, act=silu) -> rms_norm(4, drop_p=0.5) -> linear(4, 2)";
  CHECK(model.text() == text);
  CHECK(Sequential::parse(text).text() == text);
  std::vector<std::string> names;
  for (const NamedParameter& parameter : model.parameters()) {
    names.push_back(parameter.name);
  }
  // As in torch: LayerNorm, LeakyReLU, Dropout, RMSNorm, SiLU, RMSNorm, Dropout, Linear.
  CHECK(names ==
        std::vector<std::string>{"0.weight", "3.weight", "5.weight", "7.weight", "7.bias"});
  Sequential dropping{LayerNorm{50, {.act = math::Tanh{}, .drop_p = 0.5}}};
  const Tensor x = tensor({20, 50}, 2.0, 1, DType::float32);
  CHECK(std::ranges::count(doubles(dropping(x)), 0.0) > 300);
  dropping.eval();
  CHECK(same(dropping(x), layer_norm(x, {50}, Tensor::full({50}, 1), Tensor::zeros({50}), 1e-5,
                                     {math::Tanh{}})));
  check_error([] { Sequential::parse("layer_norm(4, act=rely)"); }, {"unknown", "rely"});
  check_error([] { Sequential::parse("rms_norm(4, slope=1)"); }, {"rms_norm takes"});
  check_error([] { LayerNorm{4, {.drop_p = 1.5}}; }, {"layer_norm(drop_p)", "[0, 1]"});
  check_error([] { RMSNorm{4, {.act = math::Hardtanh{2, 1}}}; }, {"rms_norm", "hardtanh"});
}

TEST_CASE("a dropout behind a softmax joins its pass, in training") {
  Tensor x = tensor({40, 6}, 2.0, 1, DType::float32);
  x.set_requires_grad();
  const auto run = [&x](Sequential model) {
    model.set_generator(std::make_shared<Generator>(5));
    Tape tape;
    const Tensor y = model(x);
    return std::pair{y.detach(), tape.size()};
  };
  const auto own = run(Sequential{Softmax{{.drop_p = 0.3}}, Tanh{}});
  CHECK(own.second == 2);
  CHECK(same(own.first, tanh(softmax(x, -1, {0.3, std::make_shared<Generator>(5)}))));
  for (const auto& next : {run(Sequential{Softmax{}, Dropout{.p = 0.3}, Tanh{}}),
                           run(Sequential::parse("softmax(drop_p=0.3) -> tanh")),
                           run(Sequential::parse("softmax -> dropout(p=0.3) -> tanh"))}) {
    CHECK(same(next.first, own.first));
    CHECK(next.second == own.second);
  }
  // One that has dropout of its own takes no second, and other kinds of softmax take none.
  CHECK(run(Sequential{Softmax{{.drop_p = 0.3}}, Dropout{.p = 0.3}}).second == 2);
  CHECK(run(Sequential{LogSoftmax{}, Dropout{.p = 0.3}}).second == 2);
  Softmax dropping{{.drop_p = 0.3}};
  check_error([&] { dropping.forward(x, DropoutOptions{}); }, {"softmax(drop_p=0.3)", "its own"});

  Sequential model{Linear{6, 6}, Softmax{{.drop_p = 0.5}}, Linear{6, 2}};
  CHECK(model.text() == "linear(6, 6) -> softmax(drop_p=0.5) -> linear(6, 2)");
  CHECK(Sequential::parse(model.text()).text() == model.text());
  // As in torch: Linear, Softmax, Dropout, Linear.
  CHECK(model.parameters().back().name == "3.bias");
  for (const char* text : {"softmax(drop_p=0.5)", "softmax -> dropout(p=0.5)"}) {
    Sequential alone = Sequential::parse(text);
    CHECK(std::ranges::count(doubles(alone(x)), 0.0) > 60);
    alone.eval();
    CHECK(same(alone(x), softmax(x)));
    CHECK(alone(Tensor::zeros({0, 6})).shape() == Shape{0, 6});
  }
  for (const double bad : {-0.1, 1.5, std::nan("")}) {
    check_error([&] { Softmax{{.drop_p = bad}}; }, {"softmax(drop_p)", "[0, 1]"});
  }
  check_error([] { Sequential::parse("softmax(drop_p=1.5)"); }, {"softmax(drop_p)", "[0, 1]"});
  check_error([] { Sequential::parse("log_softmax(drop_p=0.5)"); },
              {"log_softmax", "no arguments"});
}

TEST_CASE("CUDA: replayed steps of norms and softmax with dropout give the bits of eager ones") {
  if (!has_gpu()) {
    return;
  }
  const auto run = [](bool capture) {
    manual_seed(6);
    Sequential model = Sequential::parse(
        "linear(8, 40) -> layer_norm(40) -> gelu(drop_p=0.2) -> linear(40, 5) -> rms_norm(5) -> "
        "tanh -> dropout(0.2) -> softmax(drop_p=0.2) -> linear(5, 2)");
    model.to(Device::cuda());
    SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9}};
    CapturedStep step{model, CrossEntropyLoss{}, optimizer};
    step.set_capture(capture);
    const TensorDataset data{tensor({32, 8}, 2.0, 1, DType::float32),
                             Tensor::full({32}, 1, DType::int64)};
    std::vector<std::int64_t> order(32);
    std::iota(order.begin(), order.end(), 0);
    for (int i = 0; i < 12; ++i) {
      step(data.batch(order, Device::cuda()));
    }
    step.check();
    CHECK((step.replayed() > 5) == capture);
    std::vector<double> out;
    for (const NamedParameter& parameter : model.parameters()) {
      const auto values = doubles(parameter.value());
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("gates by name") {
  const Tensor x = tensor({3, 8}, 2.0, 1, DType::float32);
  CHECK(same(Sequential{GLU{}}(x), glu(x)));
  CHECK(same(Sequential{SwiGLU{}}(x), glu(x, math::SiLU{})));
  CHECK(same(Sequential{GEGLU{}}(x), glu(x, math::GELU{})));
  CHECK(same(Sequential{ReGLU{}}(x), glu(x, math::ReLU{})));
  CHECK(same(Sequential{GLU{.act = math::LeakyReLU{0.2}}}(x), glu(x, math::LeakyReLU{0.2})));
  check_error([] { Sequential{GLU{.drop_p = 1.5}}; }, {"glu", "drop_p", "[0, 1]"});
  check_error(
      [&] {
        Sequential{Tanh{}, GLU{}}(tensor({3, 5}, 2.0, 1, DType::float32));
      },
      {"layer 1 of the model", "glu", "[3, 5]"});
}

TEST_CASE("a gate drops in train mode only, and counts as a module of torch's") {
  Sequential model{Linear{6, 40}, SwiGLU{.drop_p = 0.5}, Linear{20, 2}};
  model.set_generator(std::make_shared<Generator>(5));
  CHECK(model.parameters().back().name == "3.bias");
  const Tensor x = tensor({30, 6}, 2.0, 1, DType::float32);
  Sequential gate{SwiGLU{.drop_p = 0.5}};
  const Tensor halves = tensor({30, 40}, 2.0, 1, DType::float32);
  const auto count = [&] {
    const auto y = doubles(gate(halves));
    return std::ranges::count(y, 0.0);
  };
  CHECK(count() > 200);
  gate.eval();
  CHECK(count() == 0);
  CHECK(same(gate(halves), glu(halves, math::SiLU{})));
}

void check_training(Device device) {
  manual_seed(3);
  Sequential model = Sequential::parse(
      "linear(2, 64) -> layer_norm(64) -> swiglu(drop_p=0.1) -> rms_norm(32) -> linear(32, 2) -> "
      "log_softmax");
  model.to(device);
  AdamW optimizer{model.parameters(), {.lr = 0.01}};
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 256; ++i) {
    const double angle = 0.0245 * i, radius = i % 2 == 0 ? 1 : 2;
    points.push_back(static_cast<float>(radius * std::cos(angle)));
    points.push_back(static_cast<float>(radius * std::sin(angle)));
    labels.push_back(i % 2);
  }
  const TensorDataset data{Tensor::from(points, {256, 2}), Tensor::from(labels, {256})};
  Trainer trainer{model, NLLLoss{}, optimizer};
  const auto reports =
      trainer.fit(data, {.epochs = 40, .batch_size = 50, .max_grad_norm = 5, .progress = false});
  CHECK(reports.back().loss < 0.1);
  CHECK(*trainer.evaluate(data).accuracy > 0.98);
}

TEST_CASE("a model of norms, gates and log-probabilities learns") { check_training(Device::cpu()); }

TEST_CASE("CUDA: a model of norms, gates and log-probabilities learns") {
  if (has_gpu()) {
    const auto fallbacks = fallback_count();
    check_training(Device::cuda());
    CHECK(fallback_count() == fallbacks);
  }
}

}  // namespace
}  // namespace sinter
