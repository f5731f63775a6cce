// Batch norms of rows of features, and of images, for test_threads.cpp.
#pragma once

#include <optional>

#include "compare.h"
#include "runs.h"
#include <sinter/kernels/ops.h>

namespace sinter {

template <class T>
NamedRuns batch_norm_runs(Numbers& numbers) {
  NamedRuns runs;
  for (const Shape& shape : {Shape{1003, 202}, Shape{7, 11, 61, 67}}) {
    const auto empty = [](const Shape& of) { return Tensor::full(of, -77, dtype_of<T>); };
    const auto random = [&](const Shape& of) { return random_tensor<T>(of, numbers, -3, 3); };
    const Shape channels{shape[1]}, two{2, shape[1]};
    const Tensor x = random(shape), dy = random(shape), residual = random(shape);
    const Tensor weight = random(channels), bias = random(channels), mean = random(channels);
    const Tensor var = random_tensor<T>(channels, numbers, 0.5, 2), sums = random(two);
    const ops::NormArgs args{1e-5, {math::SiLU{}, {math::dropout_mask(0.3, 5, 6, 7), 3}}};
    runs.emplace_back(ops::batch_norm_statistics.name, [=] {
      Tensor center = empty(channels), spread = empty(channels);
      Tensor running = mean.clone(), running_var = var.clone();
      Tensor count = Tensor::full({}, 4, DType::int64);
      ops::batch_norm_statistics(x, center, spread, running, running_var, count, std::nullopt);
      return Results{center, spread, running, running_var, count};
    });
    runs.emplace_back(ops::batch_norm_forward.name, [=] {
      Tensor y = empty(shape);
      ops::batch_norm_forward(x, mean, var, weight, bias, residual, y, args);
      return Results{y};
    });
    runs.emplace_back(ops::batch_norm_backward_sums.name, [=] {
      Tensor dz = empty(shape), of_z = empty(two), dw = empty(channels), db = bias.clone();
      ops::batch_norm_backward_sums(x, mean, var, weight, bias, residual, dy, dz, of_z, dw, db,
                                    args, {.accumulate_bias = true});
      return Results{dz, of_z, dw, db};
    });
    runs.emplace_back(ops::batch_norm_backward.name, [=] {
      Tensor dx = empty(shape);
      ops::batch_norm_backward(x, mean, var, weight, dy, sums, dx, 1e-5);
      return Results{dx};
    });
  }
  return runs;
}

}  // namespace sinter
