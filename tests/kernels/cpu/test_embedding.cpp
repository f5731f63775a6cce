// Embeddings on the CPU: rows by index, and the sums of their gradients.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "../../runtime/sentence.h"
#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

TEST_CASE_TEMPLATE("indices of each type", I, std::int64_t, std::int32_t, std::uint8_t) {
  const Tensor weight = Tensor::from(std::vector<float>{0, 1, 10, 11, 20, 21}, {3, 2});
  const Tensor indices = Tensor::from(std::vector<I>{2, 0, 2}, {3});
  Tensor y = Tensor::zeros({3, 2});
  ops::embedding_forward(weight, indices, y);
  CHECK(y.to_vector<float>() == std::vector<float>{20, 21, 0, 1, 20, 21});
  Tensor dw = Tensor::full({3, 2}, 100);
  const Tensor dy = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  ops::embedding_backward(dy, indices, dw, {});
  CHECK(dw.to_vector<float>() == std::vector<float>{3, 4, 0, 0, 6, 8});
  ops::embedding_backward(dy, indices, dw, {.padding_idx = 2, .accumulate = true});
  CHECK(dw.to_vector<float>() == std::vector<float>{6, 8, 0, 0, 6, 8});
  ops::embedding_backward(dy, indices, dw, {.padding_idx = 0});
  CHECK(dw.to_vector<float>() == std::vector<float>{0, 0, 0, 0, 6, 8});
  check_refused(
      [&] {
        ops::embedding_forward(weight, Tensor::from(std::vector<I>{2, 0, 3}, {3}), y);
      },
      {"embedding", "index 3", "position 2", "[0, 3)"});
}

TEST_CASE("a gradient keeps small terms beside large ones") {
  const std::vector<float> terms{0x1p30f, 1, -0x1p30f, 1};
  Tensor dw = Tensor::zeros({1, 1});
  ops::embedding_backward(Tensor::from(terms, {4, 1}), Tensor::zeros({4}, DType::int64), dw, {});
  CHECK(dw.item() == 2);
}

TEST_CASE("nothing to look up") {
  const Tensor weight = Tensor::full({3, 2}, 1), none = Tensor::zeros({0, 4}, DType::int64);
  Tensor y = Tensor::zeros({0, 4, 2}), dw = Tensor::full({3, 2}, 7);
  ops::embedding_forward(weight, none, y);
  ops::embedding_backward(y, none, dw, {});
  CHECK(dw.to_vector<float>() == std::vector<float>(6, 0));
}

}  // namespace
}  // namespace sinter
