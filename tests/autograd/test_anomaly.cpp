// A DetectAnomaly scope names the first op whose result is no finite number.
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "values.h"
#include <sinter/autograd/anomaly.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/runtime/graph.h>

namespace sinter {
namespace {

using namespace testing;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

TEST_CASE("the first op that computes a NaN is named, with how many, where, and from what") {
  const Tensor x = Tensor::from({1.0, 0.0, 0.0, -1.0, 2.0, 0.0}, {2, 3});
  const Tensor y = Tensor::from({1.0, 1.0, 0.0, 1.0, 1.0, 0.0}, {2, 3});
  CHECK(std::isnan(doubles(x / y)[2]));  // without a scope nothing is said
  const DetectAnomaly anomaly;
  check_refused([&] { x / y; },
                {"op divide gave 2 NaN in float64 [2, 3], the first at [0, 2]",
                 "from inputs that are all finite", "outside of layers and backward"});
  check_refused([&] { y / x; }, {"2 NaN and 1 infinity in float64 [2, 3]", "at [0, 1]"});
  const Tensor bad = Tensor::from({1.0, nan, 1.0, 1.0, inf, 1.0}, {2, 3});
  check_refused([&] { x + bad; }, {"op add gave 1 NaN and 1 infinity",
                                   "from its input 1, which had 1 NaN and", "the first at [0, 1]"});
  CHECK(doubles(x * y) == std::vector<double>{1, 0, 0, -1, 2, 0});  // and what is sound goes on
}

TEST_CASE("a scalar, an empty tensor and numbers that are not floating") {
  const DetectAnomaly anomaly;
  check_refused([] { Tensor::full({}, 1.0) / Tensor::full({}, 0.0); },
                {"1 infinity in float32 [], the first at []"});
  CHECK((Tensor::zeros({0, 3}) + Tensor::zeros({0, 3})).numel() == 0);
  CHECK(argmax(Tensor::from({0.0F, 2.0F}, {1, 2})).to_vector<std::int64_t>()[0] == 1);
}

TEST_CASE("an op that overwrites its input is told from what it had read") {
  Tensor y = Tensor::from({1.0, inf}, {2});
  const DetectAnomaly anomaly;
  check_refused([&] { y *= 2.0; }, {"op affine gave 1 infinity", "from its input 0"});
}

TEST_CASE("nan_only lets infinities pass") {
  const Tensor logits = Tensor::from({1.0, 2.0, 3.0}, {1, 3});
  const Tensor mask = Tensor::from({0.0, -inf, 0.0}, {1, 3});
  check_refused(
      [&] {
        const DetectAnomaly anomaly;
        softmax(logits + mask);
      },
      {"op add", "1 infinity", "from its input 1"});
  const DetectAnomaly anomaly({.nan_only = true});
  CHECK(doubles(softmax(logits + mask))[1] == 0);
  check_refused([&] { mask - mask; }, {"op subtract", "1 NaN", "from inputs that are all finite"});
}

TEST_CASE("16-bit tensors, and a device without kernels") {
  const QuietFallback quiet;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = Tensor::from({60000.0F, 1.0F}, {2}).to(dtype);
    const DetectAnomaly anomaly;
    if (dtype == DType::float16) {
      check_refused([&] { x + x; }, {"op add gave 1 infinity in float16 [2]"});
    } else {
      CHECK(doubles(x + x)[1] == 2);
    }
    const Tensor there = x.to(Device::fake());
    check_refused([&] { there / (there - there); }, {"op divide gave 2 infinities"});
  }
}

TEST_CASE("backward is told from forward, and the function of a node named") {
  Tensor x = leaf_of({4.0, 0.0});
  Tape tape;
  const Tensor y = sum(x / Tensor::from({1.0, 1.0}, {2}));
  const DetectAnomaly anomaly;
  check_refused([&] { tape.backward(y, Tensor::full({}, nan, DType::float64)); },
                {"in backward of sum", "its input"});
  CHECK_FALSE(x.grad().defined());
}

// A square root as a user writes one, on the elements: its derivative at 0 is infinite.
Tensor root(const Tensor& x) {
  Tensor y = detached(x).clone();
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    y.data<double>()[i] = std::sqrt(y.data<double>()[i]);
  }
  record("root", {x}, y, [kept = Saved(y)](Backward& b) {
    Tensor dx = b.grad().clone();
    for (std::int64_t i = 0; i < dx.numel(); ++i) {
      dx.data<double>()[i] /= 2 * b.saved(kept).data<double>()[i];
    }
    b.give(0, dx);
  });
  return y;
}

TEST_CASE("functions of one's own are looked at where they are recorded and where they give") {
  Tensor x = leaf_of({4.0, 0.0, 0.0});
  Tape tape;
  const DetectAnomaly anomaly;
  const Tensor y = sum(root(x));
  check_refused([&] { tape.backward(y); }, {"in backward of root",
                                            "function root gave its input 0 a gradient with 2 "
                                            "infinities in float64 [3], the first at [1]"});
  CHECK_FALSE(x.grad().defined());
  Tensor below = leaf_of({-1.0});
  Tape second;
  check_refused([&] { root(below); }, {"function root gave 1 NaN in float64 [1]"});
}

TEST_CASE("values and gradients are the same bits inside the scope") {
  const Tensor x = tensor({5, 3}, 2.0, 3, DType::float32);
  const auto gradients = [&](bool watched) {
    std::optional<DetectAnomaly> anomaly;
    if (watched) {
      anomaly.emplace();
    }
    Tensor w = leaf({4, 3}, 1.0, 1, DType::float32), v = leaf({4, 4}, 1.0, 2, DType::float32);
    Tape tape;
    const Tensor y =
        linear_activation(linear_activation(x, w, {}, math::GELU{}), v, {}, math::ReLU{});
    tape.backward(mean(y * y));
    std::vector<double> all = doubles(w.grad());
    const std::vector<double> more = doubles(v.grad());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("scopes nest, end with an exception, and are of their thread") {
  CHECK_FALSE(DetectAnomaly::is_on());
  {
    const DetectAnomaly outer;
    {
      const DetectAnomaly inner({.nan_only = true});
      CHECK(std::isinf(doubles(Tensor::full({1}, 1.0) / Tensor::full({1}, 0.0))[0]));
    }
    CHECK_THROWS_AS((Tensor::full({1}, 1.0) / Tensor::full({1}, 0.0)), AnomalyError);
  }
  CHECK_FALSE(DetectAnomaly::is_on());
  CHECK(std::isinf(doubles(Tensor::full({1}, 1.0) / Tensor::full({1}, 0.0))[0]));
}

TEST_CASE("scopes end in any order, and on another thread") {
  const auto divide = [] { return Tensor::full({1}, 1.0) / Tensor::full({1}, 0.0); };
  std::optional<DetectAnomaly> first, second;
  first.emplace();
  second.emplace();
  first.reset();
  CHECK_THROWS_AS(divide(), AnomalyError);
  std::thread([&] {
    CHECK_FALSE(DetectAnomaly::is_on());
    second.reset();
  }).join();
  CHECK(std::isinf(doubles(divide())[0]));
  first.emplace();
  CHECK_THROWS_AS(divide(), AnomalyError);
  first.reset();
  CHECK_FALSE(DetectAnomaly::is_on());
}

TEST_CASE("a graph is not recorded inside the scope") {
  const DetectAnomaly anomaly;
  Graph graph(Device::fake());
  const Tensor x = Tensor::zeros({2}, DType::float32, Device::fake());
  check_refused([&] { graph.record([&] { x + x; }); }, {"DetectAnomaly", "graph", "end the scope"});
}

}  // namespace
}  // namespace sinter
