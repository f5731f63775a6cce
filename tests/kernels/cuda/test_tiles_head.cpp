// The last Linear with its loss in one kernel.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"
#include "tiles.h"
#include <sinter/runtime/graph.h>

namespace sinter::on_device {
namespace {

Tensor labels_of(std::int64_t rows, std::int64_t classes, DType dtype, std::int64_t ignored,
                 std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < rows; ++i) {
    labels.push_back(numbers.integer(0, 9) == 0 ? ignored : numbers.integer(0, classes - 1));
  }
  return Tensor::from(labels, {rows}).to(dtype);
}

struct Case {
  LinearSizes size;
  ops::CrossEntropyArgs loss;
  DType labels;
  bool class_weights, bias, grad;
};

// By the CPU in float64, of the logits that the factors in TF32 give.
struct Wanted {
  Tensor loss, grad;
};
Wanted wanted(const Case& c, const Operand& x, const Operand& w, const Operand& bias,
              const Tensor& labels, const Operand& class_weights) {
  Product logits = product_of(c.size.rows, c.size.out, c.size.in, at(x.value, c.size.in),
                              transposed(w.value, c.size.in));
  for (std::size_t i = 0; c.bias && i < logits.value.size(); ++i) {
    logits.value[i] += bias.value[i % bias.value.size()];
  }
  const bool none = c.loss.reduction == ops::Reduction::none;
  Wanted result{Tensor::zeros(none ? Shape{c.size.rows} : Shape{}, DType::float64),
                Tensor::zeros({c.size.rows, c.size.out}, DType::float64)};
  const Tensor weights = c.class_weights ? in_float64(class_weights.value, {c.size.out}) : Tensor{};
  ops::cross_entropy(Tensor::from(logits.value, {c.size.rows, c.size.out}), labels, weights,
                     result.loss, result.grad, c.loss);
  return result;
}

TEST_CASE("CUDA tiles: the last linear with its loss") {
  if (!has_gpu()) {
    return;
  }
  const AllCores all_cores;
  const Fallback error(FallbackPolicy::error);
  const std::vector<math::AnyActivation> settings = all_settings();
  constexpr LinearSizes sizes[] = {{1, 1, 1},     {128, 128, 10}, {33, 37, 7},
                                   {70, 300, 16}, {20, 64, 17},   {45, 130, 32},
                                   {1000, 20, 3}, {16, 520, 31},  {257, 128, 10}};
  int variant = 0;
  for (const LinearSizes& s : sizes) {
    for (const ops::Reduction reduction :
         {ops::Reduction::mean, ops::Reduction::sum, ops::Reduction::none}) {
      constexpr DType types[] = {DType::int64, DType::int32, DType::uint8};
      const DType type = types[variant % 3 == 0 ? variant / 3 % 3 : variant % 2];
      const std::int64_t ignored = type == DType::uint8 ? 255 : -100;
      const Case c{s,
                   {.reduction = reduction,
                    .label_smoothing = variant % 2 == 0 ? 0.0 : 0.1,
                    .ignore_index = ignored},
                   type,
                   variant % 4 >= 2,
                   variant % 5 != 4,
                   variant % 7 != 6};
      INFO(s.rows, " x ", s.in, " -> ", s.out, ", ", name_of(reduction), ", variant ", variant);
      const std::int64_t shift = variant % 3 == 1 ? 1 : 0;
      const Operand x({s.rows, s.in}, 1, shift), w({s.out, s.in}, 2, 0), bias({s.out}, 3, shift);
      const Operand class_weights(random_values<float>(s.out, 4, 0.5, 2), {s.out}, shift);
      const Tensor labels = labels_of(s.rows, s.out, type, ignored, 5);
      const Wanted want = wanted(c, x, w, bias, labels, class_weights);
      ops::ActivationArgs args{.act = settings[std::size_t(variant) % settings.size()],
                               .dropout = dropout_case(variant)};
      const Tensor before = Tensor::from(random_values<float>(s.rows * s.in, 6, -3, 3),
                                         {s.rows, s.in}, Device::cuda());
      const Placed<float> kept(needs_input(*args.act) ? before : forward<float>(before, args),
                               shift);
      const auto run = [&](const Tensor& kept_or_none, std::vector<float>& loss_value,
                           std::vector<float>& grad_value) {
        Placed<float> loss(want.loss.shape()), grad({s.rows, s.out}, shift),
            dx({s.rows, s.in}, shift);
        Tensor no_grad;
        ops::linear_cross_entropy(
            x.tensor(), w.tensor(), c.bias ? bias.tensor() : Tensor{}, labels.to(Device::cuda()),
            c.class_weights ? class_weights.tensor() : Tensor{}, kept_or_none, loss.tensor,
            c.grad ? grad.tensor : no_grad, dx.tensor, c.loss, args);
        CHECK(loss.damage() == "");
        CHECK(grad.damage() == "");
        CHECK(dx.damage() == "");
        loss_value = loss.values();
        grad_value = grad.values();
        return dx.values();
      };
      std::vector<float> loss, grad, loss_again, grad_again;
      const std::vector<float> plain = run({}, loss, grad);
      const std::vector<float> dx = run(kept.tensor, loss_again, grad_again);
      CHECK(unlike(loss, loss_again) == "");
      // Logits of up to `in` terms below 1 have so many roundings.
      const double roundings = 4 * static_cast<double>(s.in + 16);
      CHECK(off(loss, want.loss.to_vector<double>(), roundings,
                reduction == ops::Reduction::sum ? static_cast<double>(s.rows) : 1) == "");
      const double beside = reduction == ops::Reduction::mean ? 1.0 / double(s.rows) : 1.0;
      if (c.grad) {
        CHECK(unlike(grad, grad_again) == "");
        CHECK(off(grad, want.grad.to_vector<double>(), roundings, beside) == "");
        const Product back = product_of(s.rows, s.in, s.out, at(grad, s.out), at(w.value, s.in));
        CHECK(worst_error(plain, back, s.out) < 1);
      }
      Tensor passed = poisoned<float>({s.rows, s.in});
      ops::activation_backward(kept.tensor, upload(plain, {s.rows, s.in}), passed, args);
      CHECK(unlike(dx, download<float>(passed)) == "");
      ++variant;
    }
  }
}

TEST_CASE("CUDA tiles: a bad label of the last linear is named, the first of several") {
  if (!has_gpu()) {
    return;
  }
  const Fallback error(FallbackPolicy::error);
  const Operand x({100, 32}, 1), w({10, 32}, 2);
  std::vector<std::int64_t> labels(100, 3);
  const auto run = [&] {
    Tensor loss = poisoned<float>({}), grad = poisoned<float>({100, 10}), none;
    ops::linear_cross_entropy(x.tensor(), w.tensor(), none, upload(labels, {100}), none, none, loss,
                              grad, none, {}, {});
    return download<float>(loss)[0];
  };
  const float before = run();
  labels[83] = 10;
  labels[41] = -7;
  CHECK_THROWS_WITH_AS(
      run(), doctest::Contains("label -7 at row 41 is outside [0, 10) for 10 classes"), Error);
  labels[83] = labels[41] = 3;
  CHECK(run() == before);
}

// One step of a small network with all its kernels: forward, head, backward, update.
struct Network {
  Tensor x, labels, w1, b1, w2, b2, velocity1, velocity2, loss;

  Network()
      : x(upload(random_values<float>(48 * 36, 1, -1, 1), {48, 36})),
        labels(upload(std::vector<std::int64_t>(48, 2), {48})),
        w1(upload(random_values<float>(24 * 36, 2, -1, 1), {24, 36})),
        b1(upload(random_values<float>(24, 3, -1, 1), {24})),
        w2(upload(random_values<float>(5 * 24, 4, -1, 1), {5, 24})),
        b2(upload(random_values<float>(5, 5, -1, 1), {5})),
        velocity1(filled<float>({24, 36}, 0)),
        velocity2(filled<float>({5, 24}, 0)),
        loss(poisoned<float>({})) {}

  void step(std::uint32_t number, const Tensor& live_step, const Tensor& live_constants) {
    const ops::ActivationArgs pass{
        .act = math::GELU{}, .dropout = {math::dropout_mask(0.25, 77, 1, number), 0, live_step}};
    Tensor z = poisoned<float>({48, 24}), y = poisoned<float>({48, 24});
    Tensor dlogits = poisoned<float>({48, 5}), dz = poisoned<float>({48, 24});
    ops::linear_forward(x, w1, b1, z, y, pass);
    ops::linear_cross_entropy(y, w2, b2, labels, Tensor{}, z, loss, dlogits, dz, {}, pass);
    cuda::tile::update_linears(
        {{dz, x, w1, b1, {velocity1, {}}, {filled<float>({24}, 0), {}}},
         {dlogits, y, w2, b2, {velocity2, {}}, {filled<float>({5}, 0), {}}}},
        {math::sgd_constants<double>({.lr = 0.1, .momentum = 0.9}, false), live_constants});
  }
  std::vector<float> state() const {
    std::vector<float> all = download<float>(loss);
    for (const Tensor& t : {w1, b1, w2, b2, velocity1, velocity2}) {
      const std::vector<float> values = download<float>(t);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

TEST_CASE("CUDA tiles: steps of a graph are the steps of calls, and stop at a bad label") {
  if (!has_gpu()) {
    return;
  }
  const Fallback error(FallbackPolicy::error);
  Network called, recorded;
  std::uint32_t now = 0;
  const math::SgdConstants<float> constants =
      math::narrowed(math::sgd_constants<double>({.lr = 0.1, .momentum = 0.9}, false));
  Graph graph(Device::cuda());
  graph.record([&] {
    const Tensor live_step = graph.live({1}, DType::int32, [&](std::span<std::byte> to) {
      std::memcpy(to.data(), &now, sizeof now);
    });
    const Tensor live = graph.live({sizeof constants}, DType::uint8, [&](std::span<std::byte> to) {
      std::memcpy(to.data(), &constants, sizeof constants);
    });
    recorded.step(99, live_step, live);
  });
  for (; now < 4; ++now) {
    called.step(now, {}, {});
    graph.replay();
    CHECK(unlike(recorded.state(), called.state()) == "");
  }
  const std::vector<float> before = recorded.state();
  std::vector<std::int64_t> labels(48, 2);
  labels[31] = 5;
  recorded.labels.copy_from(upload(labels, {48}));
  graph.replay();
  CHECK(graph.fault().to_vector<std::int64_t>() == std::vector<std::int64_t>{31, 5, 5});
  const std::vector<float> after = recorded.state();
  CHECK(std::equal(before.begin() + 1, before.end(), after.begin() + 1));
}

}  // namespace
}  // namespace sinter::on_device
