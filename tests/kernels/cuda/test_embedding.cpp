// Embeddings on the GPU: the bits of the CPU, whatever the sizes, and the same in a graph.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"
#include <sinter/runtime/graph.h>

namespace sinter::on_device {
namespace {

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  return tensor.to(Device::cpu()).to_vector<T>();
}

// Gradients of `count` uses of a table of [rows, columns], `shift` elements behind an aligned
// address; indices out of range and those of the padding go nowhere.
template <class T>
std::string wrong_gradient(std::int64_t rows, std::int64_t columns, std::int64_t count,
                           std::int64_t shift, bool accumulate) {
  const std::vector<T> dy = random_values<T>(count * columns, 3, -2, 2);
  Numbers numbers(4);
  const Tensor indices = random_integers<std::int32_t>({count}, numbers, -1, rows);
  const Tensor old = Tensor::from(random_values<T>(rows * columns, 5, -2, 2), {rows, columns});
  const ops::EmbeddingArgs args{.padding_idx = rows / 2, .accumulate = accumulate};
  Tensor wanted = old.clone();
  ops::embedding_backward(Tensor::from(dy, {count, columns}), indices, wanted, args);
  Placed<T> dw(old, shift);
  ops::embedding_backward(upload(dy, {count, columns}), indices.to(Device::cuda()), dw.tensor,
                          args);
  return unlike(dw.values(), wanted.to_vector<T>()) + dw.damage();
}

TEST_CASE_TEMPLATE("CUDA: an embedding's gradient has the bits of the CPU", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const std::int64_t rows : {0, 1, 2, 17, 300}) {
    for (const std::int64_t columns : {0, 1, 3, 16, 255, 257}) {
      for (const std::int64_t count : {0, 1, 33, 2049}) {
        INFO(count, " uses of [", rows, ", ", columns, "]");
        CHECK(wrong_gradient<T>(rows, columns, count, columns % 2, count == 33) == "");
      }
    }
  }
  CHECK(wrong_gradient<T>(5001, 2, 7000, 0, false) == "");
  // More strips of 256 columns than a grid is high.
  CHECK(wrong_gradient<T>(2, 65536 * 256 + 1, 3, 0, false) == "");
}

TEST_CASE_TEMPLATE("CUDA: indices of each type", I, std::int64_t, std::int32_t, std::uint8_t) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const Tensor weight = upload(std::vector<float>{0, 1, 10, 11, 20, 21}, {3, 2});
  const Tensor indices = upload(std::vector<I>{2, 0, 2});
  Tensor y = poisoned<float>({3, 2}), dw = poisoned<float>({3, 2});
  ops::embedding_forward(weight, indices, y);
  CHECK(download<float>(y) == std::vector<float>{20, 21, 0, 1, 20, 21});
  ops::embedding_backward(upload(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}), indices, dw, {});
  CHECK(download<float>(dw) == std::vector<float>{3, 4, 0, 0, 6, 8});
  std::string sentence;
  try {
    ops::embedding_forward(weight, upload(std::vector<I>{1, 3}), y);
  } catch (const Error& error) {
    sentence = error.what();
  }
  CHECK(sentence == "embedding: index 3 at position 1 is outside [0, 3)");
}

// Many checking blocks on each side, which must not count each other's; thousands of replays give
// them the chance.
TEST_CASE("CUDA: embeddings beside a gather of the next batch") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  constexpr std::int64_t count = 60000, rows = 1000;
  Numbers numbers(4);
  const std::vector<float> table = random_values<float>(rows, 1, -1, 1);
  const Tensor weight = upload(table, {rows, 1});
  const Tensor here = random_integers<std::int64_t>({count}, numbers, 0, rows - 1);
  Tensor indices = here.to(Device::cuda()), others = here.to(Device::cuda());
  Tensor y = poisoned<float>({count, 1}), next = poisoned<float>({count, 1});
  Graph graph(Device::cuda());
  graph.record([&] {
    for (int turn = 0; turn < 20; ++turn) {
      graph.beside([&] { ops::gather_rows(weight, others, next); });
      ops::embedding_forward(weight, indices, y);
      graph.join();
    }
  });
  for (int turn = 0; turn < 20; ++turn) {
    graph.replay();
  }
  CHECK(graph.fault().to_vector<std::int64_t>()[0] == Graph::no_fault);
  std::vector<float> wanted;
  for (const std::int64_t index : here.to_vector<std::int64_t>()) {
    wanted.push_back(table[static_cast<std::size_t>(index)]);
  }
  CHECK(unlike(download<float>(y), wanted) == "");
  CHECK(unlike(download<float>(next), wanted) == "");
  // The counts are whole: each side still finds its own fault, and so does a call.
  for (Tensor* side : {&indices, &others}) {
    auto bad = here.to_vector<std::int64_t>();
    bad[59999] = rows;
    side->copy_from(std::span<const std::int64_t>(bad));
    graph.replay();
    Tensor fault = graph.fault();
    const auto found = Graph::take_fault(fault);
    REQUIRE(found.has_value());
    CHECK((*found)[0] == 59999);
    CHECK((*found)[1] == rows);
    CHECK_THROWS_AS(ops::embedding_forward(weight, *side, y), Error);
    side->copy_from(here);
  }
}

}  // namespace
}  // namespace sinter::on_device
