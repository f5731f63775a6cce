// Attention on the CPU: against the formula written out in long double, the mask's place, and
// logits at which a careless softmax fails.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

using Long = long double;

// One element of y by the definition; qkv [n, length, 3 e].
Long reference(const Tensor& qkv, const ops::AttentionArgs& args, std::int64_t n, std::int64_t i,
               std::int64_t column) {
  const std::int64_t length = qkv.size(1), e = qkv.size(2) / 3, width = e / args.num_heads;
  const std::int64_t head = column / width;
  const auto at = [&](std::int64_t row, std::int64_t part, std::int64_t c) {
    return static_cast<Long>(qkv.data<double>()[((n * length + row) * 3 + part) * e + c]);
  };
  std::vector<Long> weights;
  Long sum = 0;
  for (std::int64_t j = 0; j < (args.causal ? i + 1 : length); ++j) {
    Long product = 0;
    for (std::int64_t c = head * width; c < (head + 1) * width; ++c) {
      product += at(i, 0, c) * at(j, 1, c);
    }
    weights.push_back(std::exp(product / std::sqrt(static_cast<Long>(width))));
    sum += weights.back();
  }
  Long y = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    const auto key = static_cast<std::int64_t>(j);
    const auto element =
        static_cast<std::uint64_t>(((n * args.num_heads + head) * length + i) * length + key);
    const Long kept =
        args.dropout.mask.keep(element) ? static_cast<Long>(args.dropout.mask.scale()) : Long{0};
    y += kept * weights[j] / sum * at(key, 2, column);
  }
  return y;
}

TEST_CASE("attention is its formula, and the mask lies over [n, heads, length, length]") {
  Numbers numbers(1);
  for (const double p : {0.0, 0.4}) {
    for (const bool causal : {false, true}) {
      const Tensor qkv = random_tensor<double>({3, 7, 36}, numbers, -2, 2);
      const ops::AttentionArgs args{3, causal, {math::dropout_mask(p, 5, 6, 7)}};
      Tensor y = Tensor::full({3, 7, 12}, -77, DType::float64);
      ops::attention_forward(qkv, y, args);
      for (std::int64_t k = 0; k < y.numel(); ++k) {
        CAPTURE(k);
        const auto want = static_cast<double>(reference(qkv, args, k / 84, k / 12 % 7, k % 12));
        CHECK(std::abs(y.data<double>()[k] - want) < 1e-14);
      }
    }
  }
}

TEST_CASE_TEMPLATE("logits without bounds", T, float, double) {
  // One head of width 1, so a logit is q k: the key 1e15 takes all, then two of them share.
  const auto check = [](const std::vector<T>& keys, const std::vector<T>& wanted) {
    std::vector<T> all;
    for (std::size_t j = 0; j < 3; ++j) {
      all.insert(all.end(), {T(1e15), keys[j], T(1 + j)});
    }
    Tensor y = Tensor::zeros({1, 3, 1}, dtype_of<T>);
    ops::attention_forward(Tensor::from(all, {1, 3, 3}), y, {});
    CHECK(y.to_vector<T>() == wanted);
    Tensor dqkv = Tensor::zeros({1, 3, 3}, dtype_of<T>);
    ops::attention_backward(Tensor::from(all, {1, 3, 3}), Tensor::full({1, 3, 1}, 1, dtype_of<T>),
                            dqkv, {});
    for (const T gradient : dqkv.to_vector<T>()) {
      CHECK(std::isfinite(gradient));
    }
  };
  check({T(-1e15), T(1e15), T(0)}, {2, 2, 2});
  check({T(1e15), T(1e15), T(-1e15)}, {1.5, 1.5, 1.5});
}

TEST_CASE("what a causal query does not see and what is dropped has no part, NaN or not") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor qkv = Tensor::from(std::vector<double>{1, 1, 5, 1, 1, 7, nan, nan, nan}, {1, 3, 3});
  Tensor y = Tensor::zeros({1, 3, 1}, DType::float64);
  ops::attention_forward(qkv, y, {.causal = true});
  CHECK(y.data<double>()[0] == 5);
  CHECK(y.data<double>()[1] == 6);
  CHECK(std::isnan(y.data<double>()[2]));
  ops::attention_forward(qkv, y, {.dropout = {math::dropout_mask(1, 5, 6, 7)}});
  CHECK(y.to_vector<double>() == std::vector<double>{0, 0, 0});
}

}  // namespace
}  // namespace sinter
