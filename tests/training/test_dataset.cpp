// Data sets in memory against sums done by hand, a data set of a user's own, and what is refused.
#include <limits>
#include <numeric>
#include <set>
#include <type_traits>

#include <doctest/doctest.h>

#include "data_files.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/training/dataset.h>

namespace sinter {
namespace {

using namespace testing;
using Indices = std::vector<std::int64_t>;

// Lets the fake device, which gathers nothing itself, do so on the CPU without a word.
struct SilentFallback {
  SilentFallback() { set_fallback_policy(FallbackPolicy::silent); }
  ~SilentFallback() { set_fallback_policy(FallbackPolicy::warn); }
};

// The example of dataset.h.
class Squares : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  Batch get(std::int64_t i) const override {
    const float x = static_cast<float>(i) / 1000.0f;
    return {Tensor::from({x}, {1}), Tensor::from({x * x}, {1})};
  }
};

// Images of 2 x 3 bytes, image i holding 6 i .. 6 i + 5, label i % 10.
Tensor some_images(std::int64_t n) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(6 * n));
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return Tensor::from(bytes, {n, 1, 2, 3});
}

template <class T = std::uint8_t>
Tensor some_labels(std::int64_t n) {
  std::vector<T> labels;
  for (std::int64_t i = 0; i < n; ++i) {
    labels.push_back(static_cast<T>(i % 10));
  }
  return Tensor::from(labels, {n});
}

TEST_CASE("a user's data set is two functions, and its items are stacked") {
  const Squares data;
  const Batch item = data.get(500);
  CHECK(item.inputs.shape() == Shape{1});
  const auto [inputs, targets] = data.batch(Indices{500, 0, 250});
  CHECK(inputs.shape() == Shape{3, 1});
  CHECK(inputs.to_vector<float>() == std::vector<float>{0.5f, 0.0f, 0.25f});
  CHECK(targets.to_vector<float>() == std::vector<float>{0.25f, 0.0f, 0.0625f});
  CHECK(data.batch(Indices{1}, Device::fake()).inputs.device() == Device::fake());
  CHECK(has(error_of([&] { data.batch({}); }), "no indices"));
  CHECK(has(error_of([&] {
              data.batch(Indices{0, 1000});
            }),
            "item 1000 does not exist, there are 1000, counted from 0"));
  CHECK(has(error_of([&] { data.batch(Indices{-1}); }), "item -1 does not exist"));
}

TEST_CASE("items that do not fit together are named") {
  class Odd : public Dataset {
   public:
    std::int64_t size() const override { return 10; }
    Batch get(std::int64_t i) const override {
      const Tensor input = i == 7 ? Tensor::zeros({3}) : Tensor::zeros({2});
      const Tensor target = i == 8 ? Tensor::zeros({}) : Tensor::zeros({}, DType::int64);
      return {input, i == 9 ? Tensor{} : target};
    }
  };
  const Odd data;
  CHECK(data.batch(Indices{1, 2}).targets.shape() == Shape{2});
  CHECK(has(
      error_of([&] {
        data.batch(Indices{1, 7});
      }),
      "inputs of item 7 are float32 [3], but those of item 1 in the same batch are float32 [2]"));
  CHECK(
      has(error_of([&] {
            data.batch(Indices{1, 8});
          }),
          "targets of item 8 are float32 [], but those of item 1 in the same batch are int64 []"));
  CHECK(has(error_of([&] { data.batch(Indices{9, 1}); }), "get(9) returned undefined targets"));
  CHECK(has(error_of([&] { data.batch(Indices{1, 9}); }), "get(9) returned undefined targets"));
}

TEST_CASE("images are normalised batch by batch") {
  const Tensor images = some_images(7);
  for (const Tensor& labels :
       {some_labels<std::uint8_t>(7), some_labels<std::int32_t>(7), some_labels<std::int64_t>(7)}) {
    const InMemoryDataset data(images, labels);
    CHECK(data.size() == 7);
    const auto [inputs, targets] = data.batch(Indices{6, 0, 6});
    CHECK(inputs.shape() == Shape{3, 1, 2, 3});
    CHECK(inputs.dtype() == DType::float32);
    CHECK(targets.dtype() == DType::int64);
    CHECK(targets.to_vector<std::int64_t>() == Indices{6, 0, 6});
    const auto values = inputs.to_vector<float>();
    for (std::size_t i = 0; i < 18; ++i) {
      const double byte =
          i / 6 == 1 ? static_cast<double>(i % 6) : 36.0 + static_cast<double>(i % 6);
      CHECK(values[i] == doctest::Approx(byte / 255).epsilon(1e-6));
    }
  }
  const InMemoryDataset item(images, some_labels(7));
  CHECK(item.get(2).inputs.shape() == Shape{1, 2, 3});
  CHECK(item.get(2).targets.shape() == Shape{});
  CHECK(item.get(2).targets.item() == 2);
}

TEST_CASE("mean, std and type of a batch are options") {
  const Tensor bytes = Tensor::from<std::uint8_t>({0, 51, 255}, {1, 3});
  const Tensor label = Tensor::from<std::uint8_t>({0}, {1});
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    const InMemoryDataset data(bytes, label, {.mean = 0.2, .std = 0.5, .dtype = dtype});
    const Tensor inputs = data.batch(Indices{0}).inputs;
    CHECK(inputs.dtype() == dtype);
    const auto values = inputs.to(DType::float64).to_vector<double>();
    const double tolerance = dtype == DType::float64   ? 1e-15
                             : dtype == DType::float32 ? 3e-7
                                                       : 1e-2;
    CHECK(std::abs(values[0] - -0.4) < tolerance);
    CHECK(std::abs(values[1]) < tolerance);
    CHECK(std::abs(values[2] - 1.6) < tolerance);
  }
}

TEST_CASE("the first items and another device share what they can") {
  const SilentFallback silent;
  const InMemoryDataset data(some_images(7), some_labels(7), {.std = 0.5});
  const InMemoryDataset few = data.take(3);
  CHECK(few.size() == 3);
  CHECK(few.images().storage() == data.images().storage());
  CHECK(few.batch(Indices{2}).inputs.to_vector<float>() ==
        data.batch(Indices{2}).inputs.to_vector<float>());
  CHECK(has(error_of([&] { few.batch(Indices{3}); }), "item 3 does not exist, there are 3"));
  CHECK(has(error_of([&] { data.take(8); }), "asked for the first 8 items of 7"));
  CHECK(has(error_of([&] { data.take(-1); }), "asked for the first -1 items"));
  CHECK(data.take(0).size() == 0);

  const InMemoryDataset away = data.to(Device::fake());
  CHECK(away.images().device() == Device::fake());
  const auto [inputs, targets] = away.batch(Indices{4, 1}, Device::fake());
  CHECK(inputs.device() == Device::fake());
  CHECK(inputs.to_vector<float>() == data.batch(Indices{4, 1}).inputs.to_vector<float>());
  CHECK(targets.to_vector<std::int64_t>() == Indices{4, 1});
  CHECK(away.batch(Indices{4}).inputs.device() == Device::cpu());
}

TEST_CASE("images and labels that do not fit together") {
  const auto built = [](const Tensor& images, const Tensor& labels, const InMemoryOptions& o = {}) {
    return error_of([&] { InMemoryDataset(images, labels, o); });
  };
  const Tensor images = some_images(7), labels = some_labels(7);
  CHECK(built(images, labels).empty());
  CHECK(has(built(images, some_labels(6)), "7 images but 6 labels"));
  CHECK(has(built(Tensor::zeros({7, 2}), labels), "images of bytes (uint8), got float32"));
  CHECK(has(built(images, Tensor::zeros({7})), "integer label for each image, got float32 [7]"));
  CHECK(has(built(images, Tensor::zeros({7, 10}, DType::int64)), "got int64 [7, 10]"));
  CHECK(has(built(Tensor{}, labels), "images are an undefined tensor"));
  CHECK(has(built(images, Tensor{}), "labels are an undefined tensor"));
  CHECK(has(built(Tensor::zeros({}, DType::uint8), labels), "items along the first dimension"));
  CHECK(has(built(images, labels.to(Device::fake())), "images are on cpu and labels on fake"));
  CHECK(has(built(images, labels, {.std = 0.0}), "std above 0, got mean 0 and std 0"));
  CHECK(has(built(images, labels, {.mean = std::numeric_limits<double>::quiet_NaN()}),
            "finite mean"));
  CHECK(has(built(images, labels, {.dtype = DType::int64}), "floating type, not int64"));
}

TEST_CASE("rows of tensors of any type") {
  const SilentFallback silent;
  const Tensor inputs = Tensor::from({0.f, 1.f, 2.f, 3.f, 4.f, 5.f}, {3, 2});
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                            DType::int64, DType::int32, DType::uint8}) {
    const Tensor targets = Tensor::from({10.0, 20.0, 30.0}, {3, 1}).to(dtype);
    const TensorDataset data(inputs.to(dtype), targets);
    const auto [x, y] = data.batch(Indices{2, 0});
    CHECK(x.dtype() == dtype);
    CHECK(x.shape() == Shape{2, 2});
    CHECK(x.to(DType::float64).to_vector<double>() == std::vector<double>{4, 5, 0, 1});
    CHECK(y.to(DType::float64).to_vector<double>() == std::vector<double>{30, 10});
    CHECK(data.get(1).inputs.shape() == Shape{2});
  }
  const TensorDataset data(inputs, Tensor::zeros({3}));
  CHECK(data.take(2).size() == 2);
  CHECK(data.to(Device::fake()).batch(Indices{1}).inputs.to_vector<float>() ==
        std::vector<float>{2, 3});
  CHECK(
      has(error_of([&] { TensorDataset(inputs, Tensor::zeros({2})); }), "3 inputs but 2 targets"));
  CHECK(has(error_of([&] { data.batch(Indices{3}); }), "item 3 does not exist"));
}

TEST_CASE("a data set of inputs that know autograd gives batches that do not") {
  Tensor inputs = Tensor::zeros({3, 2});
  inputs.set_requires_grad();
  const TensorDataset data(inputs, Tensor::zeros({3}));
  CHECK_FALSE(data.batch(Indices{0}).inputs.requires_grad());
  CHECK(data.take(2).size() == 2);
}

TEST_CASE("a subset is a view with an order of its own") {
  const Squares data;
  const Subset part(data, {900, 100, 500});
  CHECK(part.size() == 3);
  CHECK(part.get(1).inputs.item() == doctest::Approx(0.1));
  CHECK(part.batch(Indices{2, 0}).inputs.to_vector<float>() == std::vector<float>{0.5f, 0.9f});
  CHECK(has(error_of([&] { part.get(3); }), "item 3 does not exist, there are 3"));
  CHECK(has(error_of([&] { part.batch(Indices{0, -1}); }), "item -1"));
  CHECK(has(error_of([&] {
              Subset(data, {0, 1000});
            }),
            "item 1000 does not exist in a data set of 1000"));
  const Subset inner(part, {1});
  CHECK(inner.batch(Indices{0}).inputs.item() == doctest::Approx(0.1));
  static_assert(!std::is_constructible_v<Subset, Squares, Indices>);
}

TEST_CASE("data sets that lie on a device gather there what batch() gives") {
  const InMemoryDataset images(
      Tensor::from(std::vector<std::uint8_t>{0, 51, 102, 153, 204, 255}, {3, 2}),
      Tensor::from(std::vector<std::uint8_t>{7, 8, 9}, {3}), {.mean = 0.5, .std = 0.25});
  const TensorDataset rows(Tensor::from({1.0f, 2.0f, 3.0f}, {3, 1}), Tensor::from({4, 5, 6}, {3}));
  const Subset last_two(images, {2, 1});
  const Subset of_subset(last_two, {1, 0});
  const auto check_same = [](const Dataset& data, const Indices& indices) {
    CHECK(data.bytes() > 0);
    for (const Device device : {Device::cpu(), Device::fake()}) {
      const auto there = data.on(device);
      REQUIRE(there != nullptr);
      CHECK(there->size() == data.size());
      const Batch expected = data.batch(indices);
      const Batch found =
          there->gather(Tensor::from(indices, {static_cast<std::int64_t>(indices.size())}, device));
      CHECK(found.inputs.device() == device);
      CHECK(found.targets.device() == device);
      CHECK(found.inputs.to_vector<float>() == expected.inputs.to_vector<float>());
      CHECK(found.targets.shape() == expected.targets.shape());
      CHECK(found.targets.to(DType::int64).to_vector<std::int64_t>() ==
            expected.targets.to(DType::int64).to_vector<std::int64_t>());
      CHECK(there->batch(indices, Device::cpu()).inputs.to_vector<float>() ==
            expected.inputs.to_vector<float>());
    }
  };
  check_same(images, {2, 0, 2});
  check_same(rows, {1, 2, 0});
  check_same(last_two, {1, 0, 1});
  check_same(of_subset, {0, 1});

  const TensorDataset copy = rows;
  TensorDataset assigned = rows;
  const auto before = assigned.id();
  assigned = rows;
  CHECK(std::set{rows.id(), copy.id(), before, assigned.id()}.size() == 4);
  CHECK(rows.id() == rows.id());

  struct Augmented : TensorDataset {
    using TensorDataset::TensorDataset;
  };
  CHECK(Augmented(rows.inputs(), rows.targets()).on(Device::fake()) == nullptr);

  const Squares own;
  CHECK(own.on(Device::fake()) == nullptr);
  CHECK(own.bytes() == 0);
  CHECK(Subset(own, {1}).on(Device::fake()) == nullptr);
  const Tensor first = Tensor::from(Indices{0}, {1});
  CHECK(has(error_of([&] { own.gather(first); }), "does not lie on a device"));
  CHECK(has(error_of([&] { last_two.gather(first); }), "does not lie on a device"));
}

}  // namespace
}  // namespace sinter
