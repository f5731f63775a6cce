// Attention and embeddings, for test_threads.cpp.
#pragma once

#include <cstdint>

#include "compare.h"
#include "runs.h"
#include <sinter/kernels/ops.h>

namespace sinter {

template <class T>
NamedRuns sequence_runs(Numbers& numbers) {
  NamedRuns runs;
  const Tensor qkv = random_tensor<T>({5, 33, 84}, numbers, -3, 3);
  const Tensor dy = random_tensor<T>({5, 33, 28}, numbers, -3, 3);
  const ops::AttentionArgs args{4, true, {math::dropout_mask(0.3, 5, 6, 7)}};
  runs.emplace_back(ops::attention_forward.name, [=] {
    Tensor y = Tensor::full(dy.shape(), -77, dtype_of<T>);
    ops::attention_forward(qkv, y, args);
    return Results{y};
  });
  runs.emplace_back(ops::attention_backward.name, [=] {
    Tensor dqkv = Tensor::full(qkv.shape(), -77, dtype_of<T>);
    ops::attention_backward(qkv, dy, dqkv, args);
    return Results{dqkv};
  });
  const Tensor weight = random_tensor<T>({301, 131}, numbers, -3, 3);
  const Tensor indices = random_integers<std::int32_t>({33, 61}, numbers, 0, 300);
  const Tensor grads = random_tensor<T>({33, 61, 131}, numbers, -3, 3);
  runs.emplace_back(ops::embedding_forward.name, [=] {
    Tensor y = Tensor::full(grads.shape(), -77, dtype_of<T>);
    ops::embedding_forward(weight, indices, y);
    return Results{y};
  });
  runs.emplace_back(ops::embedding_backward.name, [=] {
    Tensor dw = weight.clone(), fresh = Tensor::full(weight.shape(), -77, dtype_of<T>);
    ops::embedding_backward(grads, indices, dw, {.padding_idx = 3, .accumulate = true});
    ops::embedding_backward(grads, indices, fresh, {});
    return Results{dw, fresh};
  });
  return runs;
}

}  // namespace sinter
