// Ops recorded in a graph: what they read from device memory changes from replay to replay, and
// each replay gives bit for bit what a call with those values gives. A bad label stops the updates.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"
#include <sinter/runtime/graph.h>

namespace sinter::on_device {
namespace {

template <class Value>
Tensor live(const Value& value) {
  return Graph::recording()->live(
      {static_cast<std::int64_t>(sizeof(Value))}, DType::uint8,
      [&value](std::span<std::byte> to) { std::memcpy(to.data(), &value, sizeof value); });
}
Tensor live_step(const std::uint32_t& step) {
  return Graph::recording()->live({1}, DType::int32, [&step](std::span<std::byte> to) {
    std::memcpy(to.data(), &step, sizeof step);
  });
}

constexpr std::uint32_t steps[] = {0, 1, 2, 7, 0x80000000u, 0xffffffffu, 3};

TEST_CASE_TEMPLATE("CUDA: dropout in a graph draws with the step of each replay", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const std::int64_t n : {1, 7, 1027, 5000}) {
    for (const auto scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
      for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 35) - 8}) {
        const math::DropoutMask mask = math::dropout_mask(0.3, 0x123456789abcdef, 3, 99, scheme);
        const Tensor x = upload(random_values<T>(n, 1, -2, 2));
        const Tensor bias = upload(random_values<T>(n, 2, -2, 2));
        Tensor y = poisoned<T>({n}), z = poisoned<T>({n}), dx = poisoned<T>({n});
        const auto work = [&](const math::DropoutMask& drawn, const Tensor& step) {
          const ops::ActivationArgs args{
              .act = math::GELU{}, .dropout = {drawn, first, step}, .stored = dtype_of<T>};
          ops::dropout(x, y, args.dropout);
          ops::activation_forward(x, z, args);
          ops::activation_backward(x, bias, dx, args);
        };
        std::uint32_t step = 0;
        Graph graph(Device::cuda());
        graph.record([&] { work(mask, live_step(step)); });
        for (const std::uint32_t now : steps) {
          INFO(n, " elements from ", first, ", step ", now);
          step = now;
          graph.replay();
          const auto replayed = std::tuple{download<T>(y), download<T>(z), download<T>(dx)};
          math::DropoutMask eager = mask;
          eager.step = now;
          work(eager, {});
          CHECK(unlike(std::get<0>(replayed), download<T>(y)) == "");
          CHECK(unlike(std::get<1>(replayed), download<T>(z)) == "");
          CHECK(unlike(std::get<2>(replayed), download<T>(dx)) == "");
        }
      }
    }
  }
}

// Replays an update with changing constants beside eager calls from the same start.
template <class T, class Constants, class Call>
void check_updates(std::int64_t n, int states, const std::vector<Constants>& of_steps, Call call) {
  const Tensor g = upload(random_values<T>(n, 7, -1, 1));
  const auto start = [&] {
    std::vector<Tensor> all;
    for (int i = 0; i <= states; ++i) {
      all.push_back(upload(random_values<T>(n, 8 + static_cast<std::uint64_t>(i), 0, 1)));
    }
    return all;
  };
  std::vector<Tensor> replayed = start(), eager = start();
  auto now = math::narrowed(of_steps.front());
  Graph graph(Device::cuda());
  // What the arguments hold themselves is of a step that never comes.
  graph.record([&] { call(replayed, g, ops::UpdateArgs<Constants>(Constants{}, live(now))); });
  for (const Constants& constants : of_steps) {
    now = math::narrowed(constants);
    graph.replay();
    call(eager, g, ops::UpdateArgs<Constants>(constants));
    for (std::size_t i = 0; i < eager.size(); ++i) {
      CHECK(unlike(download<T>(replayed[i]), download<T>(eager[i])) == "");
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: updates in a graph take the constants of each replay", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  using Sgd = math::SgdConstants<double>;
  using Adam = math::AdamConstants<double>;
  std::vector<Sgd> sgd;
  std::vector<Adam> adam;
  for (int step = 1; step <= 5; ++step) {
    sgd.push_back(math::sgd_constants<double>(
        {.lr = 0.1 / step, .momentum = 0.9, .weight_decay = 0.01, .nesterov = step % 2 == 0},
        step == 1));
    adam.push_back(math::adam_constants<double>({.lr = 0.01 * step, .weight_decay = 0.1},
                                                1 - std::pow(0.9, step),
                                                1 - std::pow(0.999, step)));
  }
  for (const std::int64_t n : {1, 9, 1025, 4099}) {
    CAPTURE(n);
    check_updates<T>(n, 0, sgd, [](std::vector<Tensor>& p, const Tensor& g, const auto& args) {
      Tensor none_kept;
      ops::sgd_update(p[0], g, none_kept, args);
    });
    check_updates<T>(n, 1, sgd, [](std::vector<Tensor>& p, const Tensor& g, const auto& args) {
      ops::sgd_update(p[0], g, p[1], args);
    });
    check_updates<T>(n, 2, adam, [](std::vector<Tensor>& p, const Tensor& g, const auto& args) {
      ops::adam_update(p[0], g, p[1], p[2], args);
    });
  }
}

TEST_CASE_TEMPLATE("CUDA: losses and gathers in a graph are those of a call", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const std::int64_t rows : {3, 70, 1500}) {
    constexpr std::int64_t classes = 10, source_rows = 50, columns = 16;
    CAPTURE(rows);
    Numbers numbers(2);
    const Tensor bytes =
        random_integers<std::uint8_t>({source_rows, columns}, numbers, 0, 255).to(Device::cuda());
    const Tensor all_labels =
        random_integers<std::uint8_t>({source_rows}, numbers, 0, classes - 1).to(Device::cuda());
    const Tensor w = upload(random_values<T>(classes * columns, 3, -1, 1), {classes, columns});
    Tensor picked = Tensor::zeros({rows}, DType::int64, Device::cuda());
    Tensor x = poisoned<T>({rows, columns}), dlogits = poisoned<T>({rows, classes});
    Tensor labels = Tensor::zeros({rows}, DType::uint8, Device::cuda());
    Tensor loss = poisoned<T>({}), dx = poisoned<T>({rows, columns}), sum = poisoned<T>({columns});
    const auto work = [&] {
      ops::gather_normalise(bytes, picked, x, {.mean = 0.3, .std = 0.4});
      ops::gather_rows(all_labels, picked, labels);
      ops::linear_cross_entropy(x, w, Tensor{}, labels, Tensor{}, Tensor{}, loss, dlogits, dx,
                                {.label_smoothing = 0.1}, {});
      ops::sum_to(dx, sum, false);
    };
    work();  // what is made once for each device
    Graph graph(Device::cuda());
    graph.record(work);
    for (int turn = 0; turn < 3; ++turn) {
      picked.copy_from(random_integers<std::int64_t>({rows}, numbers, 0, source_rows - 1));
      graph.replay();
      const auto replayed = std::tuple{download<T>(loss), download<T>(dx), download<T>(sum)};
      work();
      CHECK(unlike(std::get<0>(replayed), download<T>(loss)) == "");
      CHECK(unlike(std::get<1>(replayed), download<T>(dx)) == "");
      CHECK(unlike(std::get<2>(replayed), download<T>(sum)) == "");
      CHECK(graph.fault().template to_vector<std::int64_t>()[0] == Graph::no_fault);
    }
  }
}

TEST_CASE("CUDA: a bad label in a graph is noted, the first stays, and updates stop") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  using Words = std::vector<std::int64_t>;
  for (const std::int64_t rows : {5, 300, 2000}) {
    CAPTURE(rows);
    const Tensor logits = upload(random_values<float>(rows * 4, 1, -1, 1), {rows, 4});
    std::vector<std::int64_t> good(static_cast<std::size_t>(rows), 2);
    Tensor labels = upload(good);
    Tensor loss = poisoned<float>({}), grad = poisoned<float>({rows, 4});
    Tensor p = filled<float>({rows, 4}, 1), q = filled<float>({rows, 4}, 1);
    Tensor m = filled<float>({rows, 4}, 0), v = filled<float>({rows, 4}, 0), none_kept;
    Graph graph(Device::cuda());
    graph.record([&] {
      ops::cross_entropy(logits, labels, Tensor{}, loss, grad, {});
      ops::sgd_update(p, grad, none_kept, math::sgd_constants<double>({.lr = 1}, true));
      ops::adam_update(q, grad, m, v, math::adam_constants<double>({.lr = 1}, 0.1, 0.001));
    });
    const auto all = [&] {
      return std::vector{download<float>(p), download<float>(q), download<float>(m),
                         download<float>(v)};
    };
    const auto label = [&](std::size_t row, std::int64_t value) {
      std::vector<std::int64_t> changed = good;
      changed[row] = value;
      changed.back() = 77;
      labels.copy_from(std::span<const std::int64_t>(changed));
    };
    const auto before = all();
    graph.replay();
    CHECK(all() != before);
    CHECK(graph.fault().to_vector<std::int64_t>()[0] == Graph::no_fault);
    const auto after = all();
    label(3, 4);
    graph.replay();
    CHECK(graph.fault().to_vector<std::int64_t>() == Words{3, 4, 4});
    CHECK(all() == after);
    label(1, -9);
    graph.replay();
    labels.copy_from(std::span<const std::int64_t>(good));
    graph.replay();
    CHECK(graph.fault().to_vector<std::int64_t>() == Words{3, 4, 4});
    CHECK(all() == after);
    Tensor noted = graph.fault();
    CHECK(Graph::take_fault(noted));
    graph.replay();
    CHECK(all() != after);
    // A call outside of the graph knows nothing of it.
    label(2, 9);
    graph.replay();
    labels.copy_from(std::span<const std::int64_t>(good));
    ops::cross_entropy(logits, labels, Tensor{}, loss, grad, {});
    const auto then = all();
    ops::sgd_update(p, grad, none_kept, math::sgd_constants<double>({.lr = 1}, true));
    CHECK(all() != then);
    CHECK(graph.fault().to_vector<std::int64_t>() == Words{2, 9, 4});
  }
}

TEST_CASE("CUDA: a bad index in a graph is noted, its row is zeros") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const Tensor rows = filled<float>({5, 3}, 1);
  Tensor picked = upload(std::vector<std::int64_t>{0, 1, 2, 3});
  Tensor y = poisoned<float>({4, 3});
  Graph graph(Device::cuda());
  graph.record([&] { ops::gather_rows(rows, picked, y); });
  picked.copy_from(upload(std::vector<std::int64_t>{0, 5, -1, 4}));
  graph.replay();
  CHECK(graph.fault().to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 5, 5});
  CHECK(download<float>(y) == std::vector<float>{1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1});
}

}  // namespace
}  // namespace sinter::on_device
