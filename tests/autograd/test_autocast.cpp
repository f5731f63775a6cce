// Autocast: which functions work in which type, where gradients are kept, what becomes of the
// copies of parameters.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "values.h"
#include <sinter/autograd/autocast.h>
#include <sinter/autograd/functions.h>
#include <sinter/runtime/graph.h>

namespace sinter {
namespace {

using namespace testing;

constexpr DType f32 = DType::float32;
constexpr DType narrow_types[] = {DType::float16, DType::bfloat16};

Tensor of(const Shape& shape, std::uint32_t seed, DType dtype = f32) {
  return tensor(shape, 1, seed, dtype);
}

// What a tensor's numbers are after rounding to `dtype`, in float64.
Tensor rounded_to(const Tensor& x, DType dtype) { return x.detach().to(dtype).to(DType::float64); }

TEST_CASE(
    "a Linear under Autocast is that of its rounded operands; gradients are those of its types") {
  for (const DType dtype : narrow_types) {
    CAPTURE(dtype);
    const Tensor x = leaf({5, 7}, 1, 1, f32), w = leaf({3, 7}, 1, 2, f32), b = leaf({3}, 1, 3, f32);
    const Tensor dy = of({5, 3}, 4, dtype);
    Tape tape;
    Tensor y;
    {
      const Autocast scope(dtype);
      y = linear(x, w, b);
    }
    CHECK(y.dtype() == dtype);
    const Tensor xr = rounded_to(x, dtype), wr = rounded_to(w, dtype), br = rounded_to(b, dtype);
    const double unit = dtype == DType::float16 ? 0x1p-11 : 0x1p-8;
    CHECK(largest_error(y, linear(xr, wr, br)) < unit);
    tape.backward(y, dy);
    // Products of 16-bit numbers are exact in float32 and so are few sums of them, nearly.
    const Tensor g = dy.to(DType::float64);
    CHECK(w.grad().dtype() == f32);
    CHECK(b.grad().dtype() == f32);
    CHECK(x.grad().dtype() == f32);
    CHECK(largest_error(w.grad(), matmul(g, xr, true)) < 1e-6);
    CHECK(largest_error(
              b.grad(),
              sum(g) * 0.0 + matmul(Tensor::full({1, 5}, 1, DType::float64), g).reshape({3})) <
          1e-6);
    CHECK(largest_error(x.grad(), matmul(g, wr)) < 1e-6);
  }
}

TEST_CASE("what works in which type") {
  struct Row {
    std::string name;
    std::function<Tensor(const Tensor&)> f;
    bool narrow;  // of a 16-bit input
  };
  const Tensor w = of({6, 6}, 5), row = of({6}, 6);
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 5, 2, 1}, {4});
  const Tensor like = of({4, 6}, 7);
  const std::vector<Row> rows = {
      {"linear", [&](const Tensor& x) { return linear(x, w, row); }, true},
      {"linear_activation",
       [&](const Tensor& x) { return linear_activation(x, w, row, math::GELU{}); }, true},
      {"matmul", [&](const Tensor& x) { return matmul(x, w); }, true},
      {"conv1d",
       [&](const Tensor& x) {
         return conv1d(x.reshape({4, 2, 3}), of({5, 2, 2}, 9));
       },
       true},
      {"batch_norm", [&](const Tensor& x) { return batch_norm(x, {}, row, row, true); }, false},
      {"relu", [](const Tensor& x) { return relu(x); }, true},
      {"glu", [](const Tensor& x) { return glu(x); }, true},
      {"affine", [](const Tensor& x) { return x * 2.0; }, true},
      {"of two types", [&](const Tensor& x) { return x + like; }, false},
      {"of two types, other side", [&](const Tensor& x) { return like / x; }, false},
      {"softmax", [](const Tensor& x) { return softmax(x); }, false},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x); }, false},
      {"layer_norm", [&](const Tensor& x) { return layer_norm(x, {6}, row, row); }, false},
      {"rms_norm", [&](const Tensor& x) { return rms_norm(x, {6}, row); }, false},
      {"sum", [](const Tensor& x) { return sum(x); }, false},
      {"mean", [](const Tensor& x) { return mean(x); }, false},
      {"cross_entropy", [&](const Tensor& x) { return cross_entropy(x, labels); }, false},
      {"linear_cross_entropy",
       [&](const Tensor& x) { return linear_cross_entropy(x, w, row, labels); }, false},
      {"nll_loss", [&](const Tensor& x) { return nll_loss(x, labels); }, false},
      {"l1_loss", [&](const Tensor& x) { return l1_loss(x, like); }, false},
      {"mse_loss", [&](const Tensor& x) { return mse_loss(like, x); }, false},
      {"huber_loss", [&](const Tensor& x) { return huber_loss(x, like); }, false},
      {"smooth_l1_loss", [&](const Tensor& x) { return smooth_l1_loss(x, like); }, false},
      {"binary_cross_entropy_with_logits",
       [&](const Tensor& x) { return binary_cross_entropy_with_logits(x, like); }, false},
      {"kl_div", [&](const Tensor& x) { return kl_div(x, like * like); }, false},
  };
  for (const DType dtype : narrow_types) {
    CAPTURE(dtype);
    for (const Row& r : rows) {
      CAPTURE(r.name);
      Tensor x = of({4, 6}, 8, dtype);
      x.set_requires_grad();
      Tape tape;
      Tensor y;
      {
        const Autocast scope(dtype);
        y = r.f(x);
      }
      CHECK(y.dtype() == (r.narrow ? dtype : f32));
      tape.backward(y, Tensor::full(y.shape(), 1, y.dtype()));
      CHECK(x.grad().dtype() == dtype);
      // The value is that of float64, to the accuracy of a few roundings.
      const Tensor exact = r.f(of({4, 6}, 8, dtype).to(f32));
      CHECK(largest_error(y, exact) < (dtype == DType::float16 ? 0x1p-8 : 0x1p-5));
    }
  }
}

TEST_CASE("norms, losses and Linears of a 16-bit model take part in a scope of either type") {
  for (const DType stored : narrow_types) {
    for (const DType dtype : narrow_types) {
      CAPTURE(stored);
      CAPTURE(dtype);
      Tensor w = of({6, 6}, 5, stored), row = of({6}, 6, stored);
      w.set_requires_grad();
      row.set_requires_grad();
      const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 5, 2, 1}, {4});
      const CrossEntropyOptions weighted{.class_weights = Tensor::full({6}, 1, stored)};
      Tape tape;
      const Autocast scope(dtype);
      const Tensor h = linear(of({4, 6}, 8, stored), w, row);
      const Tensor n = layer_norm(batch_norm(h, {}, row, row, true), {6}, row, row);
      const Tensor loss = cross_entropy(linear(rms_norm(n, {6}, row), w), labels, weighted);
      CHECK(loss.dtype() == f32);
      tape.backward(loss);
      CHECK(w.grad().dtype() == stored);
      CHECK(row.grad().dtype() == stored);
    }
  }
}

TEST_CASE("a parameter's copy is kept until the parameter changes") {
  Tensor w = leaf({2, 2}, 1, 1, f32);
  const Tensor x = of({3, 2}, 2);
  const Autocast scope(DType::bfloat16);
  const Tensor one = product_operand(w);
  CHECK(product_operand(w).address() == one.address());
  CHECK(product_operand(x).address() != product_operand(x).address());  // no parameter
  Tensor values = w.detach();
  values.fill(0.5);
  CHECK(doubles(product_operand(w)) == std::vector<double>{0.5, 0.5, 0.5, 0.5});
  {
    const Autocast none(std::nullopt);
    CHECK(linear(x, w).dtype() == f32);
    const Autocast other(DType::float16);
    CHECK(linear(x, w).dtype() == DType::float16);
  }
  CHECK(linear(x, w).dtype() == DType::bfloat16);
}

TEST_CASE("a copy made while a graph is recorded is not taken outside of it") {
  const QuietFallback quiet;
  const Tensor w = leaf({2, 2}, 1, 1, f32);
  const Autocast scope(DType::bfloat16);
  const Tensor before = product_operand(w);
  Tensor inside;
  Graph graph(Device::fake());
  graph.record([&] {
    inside = product_operand(w);
    CHECK(product_operand(w).address() == inside.address());
  });
  CHECK(inside.address() != before.address());  // each replay has to make it
  CHECK(product_operand(w).address() != inside.address());
}

TEST_CASE("scopes may end in any order") {
  auto outer = std::make_unique<Autocast>(DType::bfloat16);
  const auto inner = std::make_unique<Autocast>(DType::float16);
  outer.reset();
  CHECK(Autocast::dtype() == DType::float16);
  {
    const Autocast again(DType::bfloat16);
    CHECK(Autocast::dtype() == DType::bfloat16);
  }
  CHECK(Autocast::dtype() == DType::float16);
}

TEST_CASE("float64 is left alone, and so is everything outside of a scope") {
  const Tensor x = of({2, 3}, 1, DType::float64), w = of({4, 3}, 2, DType::float64);
  {
    const Autocast scope;
    CHECK(Autocast::dtype() == DType::bfloat16);
    CHECK(linear(x, w).dtype() == DType::float64);
    CHECK(linear_cross_entropy(x, w, {}, Tensor::from(std::vector<std::int64_t>{0, 1}, {2}))
              .dtype() == DType::float64);
  }
  CHECK(!Autocast::dtype());
  CHECK(linear(of({2, 3}, 1), of({4, 3}, 2)).dtype() == f32);
  check_error([] { const Autocast scope(DType::float32); },
              {"Autocast", "float16 or bfloat16", "float32"});
  CHECK(!Autocast::dtype());
  check_error(
      [] {
        linear(of({2, 3}, 1, DType::bfloat16), of({4, 3}, 2));
      },
      {"linear", "bfloat16", "float32", "convert"});
}

TEST_CASE("cast rounds to nearest, and its gradient has the type that came in") {
  const Tensor x = leaf_of({1.0 + 0x1p-11, 1.0 + 0x1p-9, 65520.0, -0.0});
  Tape tape;
  const Tensor y = cast(x, DType::float16);
  CHECK(doubles(y) == std::vector<double>{1.0, 1.0 + 0x1p-9, HUGE_VAL, 0.0});
  tape.backward(y, Tensor::full({4}, 0.25, DType::float16));
  CHECK(x.grad().dtype() == DType::float64);
  CHECK(doubles(x.grad()) == std::vector<double>{0.25, 0.25, 0.25, 0.25});
  check_error([] { cast(Tensor::zeros({2}), DType::int64); }, {"cast", "floating type", "int64"});
}

// A smooth net (rounding would take values across a kink) of three Linears with dropout, norm and
// residual addition: its loss, and the gradients of its parameters.
std::vector<Tensor> gradients_of_net(Device device, DType stored, std::optional<DType> type) {
  const auto parameter = [&](const Shape& shape, std::uint32_t seed) {
    Tensor p = of(shape, seed).to(stored).to(device);
    p.set_requires_grad();
    return p;
  };
  const std::vector<Tensor> p = {parameter({40, 24}, 1), parameter({40}, 2), parameter({40}, 3),
                                 parameter({40, 40}, 4), parameter({40}, 5), parameter({9, 40}, 6),
                                 parameter({9}, 7)};
  const Tensor x = of({33, 24}, 8).to(stored).to(device);
  std::vector<std::int64_t> labels(33);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i % 9);
  }
  const auto generator = std::make_shared<Generator>(5);
  Tape tape;
  const Autocast scope(type);
  const Tensor h =
      linear_activation(x, p[0], p[1], math::GELU{}, {.p = 0.25, .generator = generator});
  const Tensor n = layer_norm(h, {40}, p[2]);
  const Tensor r = n + linear_activation(n, p[3], p[4], math::SiLU{});
  const Tensor loss = linear_cross_entropy(r, p[5], p[6], Tensor::from(labels, {33}).to(device));
  std::vector<Tensor> out = {loss.detach()};
  tape.backward(loss);
  for (const Tensor& of_parameter : p) {
    out.push_back(of_parameter.grad());
  }
  return out;
}

// The largest difference by the largest element.
double relative_error(const Tensor& got, const Tensor& want) {
  double most = 0;
  for (const double value : doubles(want)) {
    most = std::max(most, std::abs(value));
  }
  return largest_error(doubles(got * (1 / most)), doubles(want * (1 / most)));
}

TEST_CASE("gradients of a whole net are float64's to the accuracy of the type") {
  const auto exact = gradients_of_net(Device::cpu(), DType::float64, std::nullopt);
  for (const DType dtype : narrow_types) {
    CAPTURE(dtype);
    const auto got = gradients_of_net(Device::cpu(), f32, dtype);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      CAPTURE(i);
      CHECK(got[i].dtype() == f32);
      CHECK(relative_error(got[i], exact[i]) < (dtype == DType::float16 ? 0.01 : 0.06));
      CHECK(relative_error(got[i], exact[i]) > 1e-6);  // something was rounded
    }
  }
}

TEST_CASE("CUDA: gradients under Autocast are those of the CPU") {
  if (!has_gpu()) {
    return;
  }
  const auto exact = gradients_of_net(Device::cpu(), DType::float64, std::nullopt);
  set_fallback_policy(FallbackPolicy::error);
  for (const DType dtype : narrow_types) {
    CAPTURE(dtype);
    const auto here = gradients_of_net(Device::cpu(), f32, dtype);
    const auto there = gradients_of_net(Device::cuda(), f32, dtype);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      CAPTURE(i);
      CHECK(there[i].dtype() == f32);
      CHECK(relative_error(there[i], exact[i]) < (dtype == DType::float16 ? 0.01 : 0.06));
      CHECK(relative_error(there[i], here[i]) < (dtype == DType::float16 ? 0.01 : 0.06));
    }
  }
  set_fallback_policy(FallbackPolicy::warn);
}

}  // namespace
}  // namespace sinter
