// Batch norms as layers: names, buffers, modes, what follows them in a Sequential, and training.
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include "files.h"
#include <sinter/sinter.h>

namespace sinter {
namespace {

using namespace testing;

Tensor inputs(const Shape& shape, std::uint32_t seed = 1) {
  return tensor(shape, 2.0, seed, DType::float32);
}

std::vector<std::string> names_of(const Buffers& buffers) {
  std::vector<std::string> out;
  for (const NamedBuffer& buffer : buffers) {
    out.push_back(buffer.name);
  }
  return out;
}

// All buffers, one after the other.
std::vector<double> values_of(const Buffers& buffers) {
  std::vector<double> out;
  for (const NamedBuffer& buffer : buffers) {
    const auto values = doubles(buffer.value);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

TEST_CASE("a batch norm has torch's parameters and buffers") {
  Sequential model{Flatten{}, BatchNorm1d{2}, BatchNorm1d{2, {.affine = false}},
                   BatchNorm1d{2, {.track_running_stats = false}}};
  std::vector<std::string> parameters;
  for (const NamedParameter& parameter : model.parameters()) {
    parameters.push_back(parameter.name);
    CHECK(doubles(parameter.value()) ==
          std::vector<double>(2, parameter.name.ends_with("weight") ? 1 : 0));
  }
  CHECK(parameters == std::vector<std::string>{"1.weight", "1.bias", "3.weight", "3.bias"});
  CHECK(names_of(model.buffers()) ==
        std::vector<std::string>{"1.running_mean", "1.running_var", "1.num_batches_tracked",
                                 "2.running_mean", "2.running_var", "2.num_batches_tracked"});
  CHECK(values_of(model.buffers()) == std::vector<double>{0, 0, 1, 1, 0, 0, 0, 1, 1, 0});
  CHECK(model.buffers()[2].value.dtype() == DType::int64);
  CHECK(contains(model.summary({3, 2}), "batch_norm1d(2)"));
  CHECK(values_of(model.buffers()) == std::vector<double>{0, 0, 1, 1, 0, 0, 0, 1, 1, 0});
}

TEST_CASE("the text of a batch norm reads back") {
  Sequential model{
      BatchNorm1d{4}, BatchNorm2d{3, {.eps = 0.001, .momentum = 0.2}},
      BatchNorm1d{4, {.momentum = std::nullopt, .affine = false, .track_running_stats = false}},
      BatchNorm1d{4, {.act = math::LeakyReLU{0.2}, .drop_p = 0.1}}};
  const std::string text =
      "batch_norm1d(4) -> batch_norm2d(3, eps=0.001, momentum=0.2) -> "
      "batch_norm1d(4, momentum=none, affine=false, track_running_stats=false) -> "
      "batch_norm1d(4, act=leaky_relu, negative_slope=0.2, drop_p=0.1)";
  CHECK(model.text() == text);
  CHECK(Sequential::parse(text).text() == text);
  check_error([] { Sequential::parse("batch_norm1d"); }, {"num_features", "character 1"});
  check_error([] { Sequential::parse("batch_norm1d(4, act=rely)"); }, {"unknown", "rely"});
  check_error([] { Sequential::parse("batch_norm1d(4, momentum=some)"); }, {"number", "some"});
  check_error([] { Sequential::parse("batch_norm1d(4,momentum=None)"); },
              {"expected a number or none, found \"None\""});
  check_error([] { Sequential::parse("batch_norm1d(4, slope=1)"); }, {"batch_norm1d takes"});
}

TEST_CASE("buffers go where the model goes, and are copied with it") {
  Sequential model{BatchNorm1d{3}};
  model(inputs({8, 3}));
  Sequential copy = model;
  const auto before = values_of(copy.buffers());
  CHECK(before == values_of(model.buffers()));
  model(inputs({8, 3}, 2));
  CHECK(values_of(copy.buffers()) == before);
  CHECK(before != values_of(model.buffers()));

  const auto types = [&] {
    std::vector<DType> out;
    for (const NamedBuffer& buffer : copy.buffers()) {
      out.push_back(buffer.value.dtype());
    }
    return out;
  };
  copy.to(DType::bfloat16);
  CHECK(types() == std::vector<DType>{DType::float32, DType::float32, DType::int64});
  CHECK(values_of(copy.buffers()) == before);
  CHECK(copy(inputs({8, 3}).to(DType::bfloat16)).dtype() == DType::bfloat16);
  copy.to(DType::float64);
  CHECK(types() == std::vector<DType>{DType::float64, DType::float64, DType::int64});

  const QuietFallback quiet;
  model.to(Device::fake());
  for (const NamedBuffer& buffer : model.buffers()) {
    CHECK(buffer.value.device() == Device::fake());
  }
  const auto batches = model.buffers()[2].value.item();
  model(inputs({8, 3}).to(Device::fake()));
  CHECK(model.buffers()[2].value.item() == batches + 1);
}

TEST_CASE("a layer that two places share has its buffers once") {
  struct Twice : Module {
    BatchNorm1d norm{3};
    void members(Members& m) override {
      m.child("first", norm);
      m.child("second", norm);
    }
    Tensor forward(const Tensor& x) override { return norm(norm(x)); }
  } twice;
  CHECK(names_of(twice.buffers()).size() == 3);
  twice(inputs({5, 3}));
  CHECK(twice.buffers()[2].value.item() == 2);
}

TEST_CASE("buffers need names of their own") {
  struct Clash : Module {
    bool with_parameter = false;
    Parameter scale{{1}, {1, 1}};
    Buffer first{Tensor::zeros({1})}, second{Tensor::zeros({2})};
    void members(Members& m) override {
      if (with_parameter) {
        m.parameter("same", scale);
      } else {
        m.buffer("same", first);
      }
      m.buffer("same", second);
    }
    Tensor forward(const Tensor& x) override { return x; }
  } clash;
  check_error([&] { clash.buffers(); }, {"two buffers", "same"});
  clash.with_parameter = true;
  CHECK(names_of(clash.buffers()) == std::vector<std::string>{"same"});
  const TemporaryFolder folder;
  check_error([&] { save_weights(clash, folder / "w"); }, {"a parameter and a buffer", "same"});
}

TEST_CASE("running statistics are saved and read back") {
  const TemporaryFolder folder;
  Sequential model{Linear{4, 3}, BatchNorm1d{3}};
  model(inputs({8, 4}));
  save_weights(model, folder / "w");
  TensorFile file = read_safetensors(folder / "w");
  CHECK(file.tensors.size() == 7);
  CHECK(file.tensors.at("1.num_batches_tracked").item() == 1);
  Sequential other{Linear{4, 3}, BatchNorm1d{3}};
  load_weights(other, folder / "w");
  CHECK(values_of(other.buffers()) == values_of(model.buffers()));
  model.eval();
  other.eval();
  CHECK(same(other(inputs({1, 4})), model(inputs({1, 4}))));

  // As a bfloat16 model of torch's writes them.
  file.tensors["1.running_mean"] = file.tensors["1.running_mean"].to(DType::bfloat16);
  write_safetensors(folder / "w", file);
  load_weights(other, folder / "w");
  CHECK(same(other.buffers()[0].value, file.tensors["1.running_mean"].to(DType::float32)));
  file.tensors["1.num_batches_tracked"] = Tensor::zeros({});
  file.tensors.erase("1.running_var");
  write_safetensors(folder / "w", file);
  check_error([&] { load_weights(other, folder / "w"); },
              {"missing: 1.running_var", "different: 1.num_batches_tracked", "int64"});
}

TEST_CASE("training takes a batch's statistics, eval mode the running ones") {
  Sequential model{BatchNorm1d{2, {.momentum = 0.5}}};
  const Tensor x = Tensor::from<float>({1, 10, 3, 30}, {2, 2});
  const Tensor y = model(x);
  CHECK(largest_error(doubles(y), {-1, -1, 1, 1}) < 1e-4);
  // Means 2 and 20, unbiased variances 2 and 200, half way from 0 and 1.
  CHECK(values_of(model.buffers()) == std::vector<double>{1, 10, 1.5, 100.5, 1});
  model.eval();
  const double eps = 1e-5;
  CHECK(largest_error(doubles(model(x)),
                      {0, 0, 2 / std::sqrt(1.5 + eps), 20 / std::sqrt(100.5 + eps)}) < 1e-6);
  CHECK(model.buffers()[2].value.item() == 1);
  Sequential untracked{BatchNorm1d{2, {.track_running_stats = false}}};
  untracked.eval();
  CHECK(same(untracked(x), y));
}

TEST_CASE("an activation behind a batch norm joins its pass") {
  const Tensor x = inputs({40, 6});
  const auto run = [&x](Sequential model) {
    model.set_generator(std::make_shared<Generator>(5));
    Tape tape;
    const Tensor y = model(x);
    return std::pair{y.detach(), tape.size()};
  };
  const auto own = run(Sequential{BatchNorm1d{6, {.act = math::Tanh{}, .drop_p = 0.3}}});
  for (const auto& next : {run(Sequential{BatchNorm1d{6}, Tanh{.drop_p = 0.3}}),
                           run(Sequential{BatchNorm1d{6}, Tanh{}, Dropout{.p = 0.3}}),
                           run(Sequential::parse("batch_norm1d(6, act=tanh, drop_p=0.3)"))}) {
    CHECK(same(next.first, own.first));
    CHECK(next.second == own.second);
  }
  // One that has an activation takes no second.
  const auto both = run(Sequential{BatchNorm1d{6, {.act = math::Tanh{}}}, ReLU{}});
  CHECK(both.second > own.second);
  CHECK(same(both.first, relu(run(Sequential{BatchNorm1d{6, {.act = math::Tanh{}}}}).first)));
  const Sequential counted{BatchNorm1d{6, {.act = math::Tanh{}, .drop_p = 0.3}},
                           BatchNorm1d{6, {.act = math::Tanh{}}}, Linear{6, 2}};
  CHECK(Sequential(counted).parameters().back().name == "5.bias");
}

TEST_CASE("a residual is added before the activation") {
  BatchNorm2d norm{3, {.act = math::ReLU{}}};
  const Tensor x = inputs({2, 3, 4, 5}), shortcut = inputs({2, 3, 4, 5}, 2);
  const Tensor y = norm.forward(x, shortcut);
  BatchNorm2d bare{3};
  CHECK(largest_error(y, relu(bare(x) + shortcut)) < 1e-6);
  check_error([&] { norm.forward(x, inputs({2, 3, 4, 1})); }, {"batch_norm", "residual"});
}

TEST_CASE("errors of batch norm layers") {
  Sequential model{ReLU{}, BatchNorm1d{3}};
  check_error(
      [&] {
        model(inputs({1, 3}));
      },
      {"layer 1 of the model", "batch_norm", "more than 1 value per channel", "[1, 3]"});
  CHECK(model(inputs({1, 3, 2})).shape() == Shape{1, 3, 2});
  check_error([&] { model(inputs({2, 4})); }, {"batch_norm1d(3)", "[N, C]", "C = 3", "[2, 4]"});
  check_error([&] { model(inputs({2, 3, 4, 5})); }, {"batch_norm1d(3)", "[2, 3, 4, 5]"});
  check_error([&] { model(inputs({3})); }, {"batch_norm1d(3)", "[3]"});
  check_error([&] { model(tensor({4, 3})); }, {"batch_norm1d(3)", "float64", "to(dtype)"});
  check_error([&] { model(Tensor::zeros({4, 3}, DType::int64)); }, {"floating", "int64"});
  Sequential plain{BatchNorm1d{3, {.affine = false}}};
  check_error(
      [&] {
        plain(tensor({4, 3}));
      },
      {"batch_norm1d(3, affine=false): the input is float64 and the layer float32; convert "
       "one with to(dtype)"});
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    CHECK(plain(inputs({4, 3}).to(dtype)).dtype() == dtype);
  }
  plain.to(DType::float64);
  CHECK(plain(tensor({4, 3})).dtype() == DType::float64);
  check_error([&] { plain(inputs({4, 3})); }, {"the input is float32 and the layer float64"});
  {
    const QuietFallback quiet;
    check_error(
        [&] {
          model(inputs({4, 3}).to(Device::fake()));
        },
        {"batch_norm1d(3)", "fake", "to(device)"});
  }
  Sequential images{BatchNorm2d{3}};
  check_error([&] { images(inputs({2, 3, 4})); }, {"batch_norm2d(3)", "[N, C, H, W]"});
  check_error([] { BatchNorm1d{0}; }, {"batch_norm1d", "num_features", "0"});
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check_error([&] { BatchNorm1d{3, {.eps = bad}}; }, {"batch_norm1d", "eps"});
  }
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    check_error([&] { BatchNorm2d{3, {.momentum = bad}}; }, {"batch_norm2d", "momentum"});
    check_error([&] { BatchNorm2d{3, {.drop_p = bad}}; }, {"batch_norm2d", "drop_p"});
  }
  check_error([] { BatchNorm1d{3, {.act = math::Hardtanh{2, 1}}}; }, {"batch_norm1d", "hardtanh"});
}

TEST_CASE("gradients of a model with batch norms, in both modes") {
  Sequential model{Linear{4, 3}, BatchNorm1d{3}, Tanh{}, BatchNorm1d{3, {.act = math::SiLU{}}}};
  for (int i = 0; i < 5; ++i) {
    model(inputs({8, 4}));
  }
  const auto before = values_of(model.buffers());
  const auto check_both = [&] {
    const auto report = check_model_gradient(model, inputs({6, 4}), inputs({6, 3}, 2), MSELoss{});
    CHECK_MESSAGE(report.passed, report.worst);
  };
  check_both();
  model.eval();
  check_both();
  CHECK(values_of(model.buffers()) == before);
}

// Two classes, by the sign of x0 x1, of points far from 0.
TensorDataset corners(std::int64_t n) {
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  const std::vector<double> u = numbers(2 * n, 1.0, 11);
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = u[static_cast<std::size_t>(2 * i)], b = u[static_cast<std::size_t>(2 * i + 1)];
    points.push_back(static_cast<float>(50 + 5 * a));
    points.push_back(static_cast<float>(-30 + 5 * b));
    labels.push_back(a * b > 0 ? 1 : 0);
  }
  return {Tensor::from(points, {n, 2}), Tensor::from(labels, {n})};
}

void check_training(Device device) {
  manual_seed(4);
  Sequential model = Sequential::parse(
      "batch_norm1d(2) -> linear(2, 32) -> batch_norm1d(32) -> relu -> linear(32, 2)");
  model.to(device);
  AdamW optimizer{model.parameters(), {.lr = 0.01}};
  const TensorDataset data = corners(512);
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  trainer.fit(data, {.epochs = 30, .batch_size = 64, .progress = false});
  CHECK(model.buffers()[2].value.item() == 30 * 8);
  // One item at a time, which has no statistics of its own.
  CHECK(*trainer.evaluate(data, 1).accuracy > 0.95);
}

TEST_CASE("a model of batch norms learns, and is judged by running statistics") {
  check_training(Device::cpu());
}

TEST_CASE("CUDA: a model of batch norms learns, and is judged by running statistics") {
  if (has_gpu()) {
    const auto fallbacks = fallback_count();
    check_training(Device::cuda());
    CHECK(fallback_count() == fallbacks);
  }
}

TEST_CASE("CUDA: replayed steps of batch norms give the bits of eager ones, running ones too") {
  if (!has_gpu()) {
    return;
  }
  for (const char* momentum : {"0.1", "none"}) {
    const auto run = [&](bool capture) {
      manual_seed(6);
      Sequential model =
          Sequential::parse("linear(2, 40) -> batch_norm1d(40, momentum=" + std::string(momentum) +
                            ", act=gelu, drop_p=0.2) -> linear(40, 2)");
      model.to(Device::cuda());
      SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9}};
      CapturedStep step{model, CrossEntropyLoss{}, optimizer};
      step.set_capture(capture);
      const TensorDataset data = corners(96);
      std::vector<std::int64_t> order(32);
      for (int i = 0; i < 12; ++i) {
        std::iota(order.begin(), order.end(), 32 * (i % 3));
        step(data.batch(order, Device::cuda()));
      }
      step.check();
      CHECK((step.replayed() > 5) == capture);
      std::vector<double> out = values_of(model.buffers());
      for (const NamedParameter& parameter : model.parameters()) {
        const auto values = doubles(parameter.value());
        out.insert(out.end(), values.begin(), values.end());
      }
      CHECK(model.buffers()[2].value.item() == 12);
      return out;
    };
    CHECK(run(true) == run(false));
  }
}

}  // namespace
}  // namespace sinter
