// Embeddings and attention as a user writes them. The values of attention against PyTorch are
// golden_check's subject.
#include <cmath>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include <sinter/sinter.h>

namespace sinter {
namespace {

using namespace testing;

double mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return sum / static_cast<double>(values.size());
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) {
    most = std::max(most, std::abs(value));
  }
  return most;
}

TEST_CASE("attention has torch's parameters and their initial values") {
  MultiheadAttention layer{64, 4};
  const Parameters all = layer.parameters();
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "in_proj_weight");
  CHECK(all[1].name == "in_proj_bias");
  CHECK(all[2].name == "out_proj.weight");
  CHECK(all[3].name == "out_proj.bias");
  CHECK(all[0].value().shape() == Shape{192, 64});
  CHECK(all[2].value().shape() == Shape{64, 64});
  CHECK(doubles(all[1].value()) == std::vector<double>(192, 0));
  CHECK(doubles(all[3].value()) == std::vector<double>(64, 0));
  // Uniform in +-b: the largest of thousands is close to b, the mean square b^2 / 3.
  for (const auto& [i, bound] : {std::pair{0, std::sqrt(6.0 / 256)}, std::pair{2, 0.125}}) {
    const auto values = doubles(all[static_cast<std::size_t>(i)].value());
    CHECK(largest(values) <= bound);
    CHECK(largest(values) > 0.995 * bound);
    CHECK(mean_square(values) == doctest::Approx(bound * bound / 3).epsilon(0.05));
  }
  CHECK(MultiheadAttention{8, 2, {.bias = false}}.parameters().size() == 2);
}

TEST_CASE("an embedding starts normal, its padding zero") {
  manual_seed(3);
  Embedding layer{1000, 50, {.padding_idx = -1}};
  const auto values = doubles(layer.parameters()[0].value());
  CHECK(std::vector<double>(values.end() - 50, values.end()) == std::vector<double>(50, 0));
  const std::vector<double> drawn(values.begin(), values.end() - 50);
  double sum = 0, fourth = 0;
  std::int64_t beyond = 0;
  for (const double value : drawn) {
    sum += value;
    fourth += value * value * value * value;
    beyond += std::abs(value) > 2 ? 1 : 0;
  }
  const auto n = static_cast<double>(drawn.size());
  CHECK(std::abs(sum / n) < 0.02);
  CHECK(mean_square(drawn) == doctest::Approx(1).epsilon(0.03));
  CHECK(fourth / n == doctest::Approx(3).epsilon(0.06));
  CHECK(static_cast<double>(beyond) / n == doctest::Approx(0.0455).epsilon(0.06));
  CHECK(layer.text() == "embedding(1000, 50, padding_idx=999)");
}

TEST_CASE("what these layers refuse") {
  check_error([] { MultiheadAttention{10, 3}; }, {"multihead_attention", "num_heads", "10", "3"});
  check_error([] { MultiheadAttention{0, 1}; }, {"multihead_attention", "at least 1"});
  check_error([] { MultiheadAttention{8, 0}; }, {"multihead_attention", "at least 1"});
  check_error([] { MultiheadAttention{std::numeric_limits<std::int64_t>::max(), 1}; }, {"shape"});
  check_error([] { MultiheadAttention{8, 2, {.drop_p = 1.5}}; }, {"drop_p", "[0, 1]", "1.5"});
  Sequential model{Tanh{}, MultiheadAttention{8, 2}};
  for (const Shape& shape : {Shape{3, 8}, Shape{2, 3, 7}, Shape{2, 3, 4, 8}}) {
    check_error(
        [&] { model(tensor(shape, 2.0, 1, DType::float32)); },
        {"layer 1 of the model: multihead_attention(8, 2)", "[batch, length, 8]", shape.str()});
  }
  check_error([&] { self_attention(tensor({2, 3, 8}), 2); }, {"self_attention", "[2, 3, 8]"});
  check_error([&] { self_attention(tensor({2, 3, 0}), 1); }, {"self_attention", "embed_dim 0"});
  check_error([] { Embedding{0, 3}; }, {"embedding", "num_embeddings"});
  check_error([] { Embedding{3, 0}; }, {"embedding", "embedding_dim"});
  check_error([] { Embedding{3, 2, {.padding_idx = 3}}; }, {"padding_idx 3", "[-3, 3)"});
  check_error([] { Embedding{3, 2, {.padding_idx = -4}}; }, {"padding_idx -4", "[-3, 3)"});
  Sequential words{Embedding{10, 4}};
  check_error(
      [&] {
        words(Tensor::from(std::vector<std::int32_t>{1, 10}, {2}));
      },
      {"layer 0 of the model: embedding", "index 10", "position 1", "[0, 10)"});
  check_error([&] { words(Tensor::from(std::vector<std::int64_t>{-1}, {1})); }, {"index -1"});
  check_error([&] { words(Tensor::zeros({2})); }, {"embedding", "int64", "float32"});
  check_error(
      [&] {
        words(Tensor::zeros({1, 1, 1, 1, 1, 1}, DType::int64));
      },
      {"embedding", "at most 5 dimensions"});
}

TEST_CASE("no batch, no length, one position") {
  Sequential model{Residual{LayerNorm{8}, MultiheadAttention{8, 2, {.causal = true}}}};
  for (const Shape& shape : {Shape{0, 3, 8}, Shape{2, 0, 8}, Shape{1, 1, 8}}) {
    CAPTURE(shape.str());
    Tensor x = tensor(shape, 2.0, 1, DType::float32);
    x.set_requires_grad();
    Tape tape;
    const Tensor y = model(x);
    CHECK(y.shape() == shape);
    tape.backward(sum(y));
    CHECK(x.grad().shape() == shape);
  }
}

TEST_CASE("a causal position does not depend on later ones") {
  manual_seed(2);
  Sequential model{MultiheadAttention{8, 2, {.causal = true}}};
  const Tensor x = tensor({1, 6, 8}, 2.0, 1, DType::float32);
  auto changed = doubles(x);
  for (std::size_t i = 4 * 8; i < changed.size(); ++i) {
    changed[i] += 1;
  }
  const auto before = doubles(model(x));
  const auto after = doubles(model(Tensor::from(changed, {1, 6, 8}).to(DType::float32)));
  CHECK(std::equal(before.begin(), before.begin() + 4 * 8, after.begin()));
  CHECK(before[4 * 8] != after[4 * 8]);
}

TEST_CASE("dropout of the weights acts in train mode only and draws anew each step") {
  manual_seed(2);
  Sequential model{MultiheadAttention{8, 2, {.drop_p = 0.5}}};
  Sequential without{MultiheadAttention{8, 2}};
  const Tensor x = tensor({2, 6, 8}, 2.0, 1, DType::float32);
  const auto step = [&] {
    Tape tape;
    const Tensor y = model(x);
    tape.backward(sum(y));
    return y.detach();
  };
  const Tensor first = step();
  CHECK(!same(first, step()));
  model.eval();
  const Tensor y = model(x);
  CHECK(same(y, model(x)));
  CHECK(!same(y, first));
  for (std::size_t i = 0; i < 4; ++i) {
    Tensor value = without.parameters()[i].value().detach();
    value.copy_from(model.parameters()[i].value().detach());
  }
  CHECK(same(y, without(x)));
}

TEST_CASE("16-bit attention and embeddings are those of float32, rounded") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const double epsilon = dtype == DType::float16 ? 0x1p-10 : 0x1p-7;
    const Tensor qkv = tensor({2, 5, 24}).to(dtype);
    CHECK(largest_error(self_attention(qkv, 2), self_attention(qkv.to(DType::float32), 2)) <=
          2 * epsilon);
    Sequential words{Embedding{5, 3}};
    words.to(dtype);
    const Tensor indices = Tensor::from(std::vector<std::int64_t>{4, 0}, {2});
    Tape tape;
    const Tensor y = words(indices);
    CHECK(y.dtype() == dtype);
    tape.backward(sum(y));
    CHECK(doubles(words.parameters()[0].grad()) ==
          std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  }
}

TEST_CASE("the padding row is not trained, a summary takes indices") {
  manual_seed(1);
  Sequential model{Embedding{4, 2, {.padding_idx = 1}}, Flatten{}, Linear{6, 2}};
  CHECK(contains(model.summary({5, 3}, DType::int64), "[5, 3, 2]"));
  SGD optimizer{model.parameters(), {.lr = 1}};
  const auto before = doubles(model.parameters()[0].value());
  const Tensor x = Tensor::from(std::vector<std::int64_t>{0, 1, 1, 1, 3, 3}, {2, 3});
  Tape tape;
  tape.backward(model.cross_entropy(x, Tensor::from(std::vector<std::int64_t>{0, 1}, {2})));
  optimizer.step();
  const auto after = doubles(model.parameters()[0].value());
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK((after[i] == before[i]) == (i / 2 == 1 || i / 2 == 2));  // row 2 was not asked for
  }
}

TEST_CASE("a device without a kernel has the CPU's attention") {
  const QuietFallback quiet;
  const Tensor qkv = tensor({2, 5, 24}, 2.0, 1, DType::float32);
  const auto before = fallback_count("attention_forward");
  const Tensor y = self_attention(qkv.to(Device::fake()), 2, true);
  CHECK(y.device() == Device::fake());
  CHECK(fallback_count("attention_forward") == before + 1);
  CHECK(same(y, self_attention(qkv, 2, true)));
}

// Sequences of 6 of 12 words; the class says whether word 7 is among them.
template <class Index>
TensorDataset sentences(std::int64_t n) {
  std::vector<Index> words;
  std::vector<std::int64_t> labels;
  std::uint32_t state = 17;
  for (std::int64_t i = 0; i < n; ++i) {
    labels.push_back(0);
    for (int k = 0; k < 6; ++k) {
      state = state * 1664525u + 1013904223u;
      words.push_back(static_cast<Index>((state >> 16) % 12));
      labels.back() |= words.back() == 7 ? 1 : 0;
    }
  }
  return {Tensor::from(words, {n, 6}), Tensor::from(labels, {n})};
}

template <class Index>
void check_training(const char* text, Device device) {
  manual_seed(5);
  Sequential model = Sequential::parse(text);
  model.to(device);
  Adam optimizer{model.parameters(), {.lr = 0.02}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const TensorDataset data = sentences<Index>(300);
  const auto reports = trainer.fit(data, {.epochs = 15, .batch_size = 50, .progress = false});
  CHECK(reports.back().loss < 0.1);
  CHECK(*trainer.evaluate(data).accuracy > 0.99);
}

constexpr const char* words_model = "embedding(12, 8) -> flatten -> linear(48, 2)";
constexpr const char* attention_model =
    "embedding(12, 8) -> residual(layer_norm(8) -> multihead_attention(8, 2, drop_p=0.05)) -> "
    "flatten -> linear(48, 2)";

TEST_CASE_TEMPLATE("a model of words learns", Index, std::int64_t, std::int32_t, std::uint8_t) {
  check_training<Index>(words_model, Device::cpu());
}

TEST_CASE("a model of words and attention learns") {
  check_training<std::int64_t>(attention_model, Device::cpu());
}

TEST_CASE_TEMPLATE("CUDA: a model of words learns without the CPU", Index, std::int64_t,
                   std::int32_t, std::uint8_t) {
  if (has_gpu()) {
    const auto fallbacks = fallback_count();
    check_training<Index>(words_model, Device::cuda());
    CHECK(fallback_count() == fallbacks);
  }
}

TEST_CASE("CUDA: attention runs on the CPU and learns") {
  if (has_gpu()) {
    const QuietFallback quiet;
    check_training<std::int64_t>(attention_model, Device::cuda());
  }
}

}  // namespace
}  // namespace sinter
