// The ops of batch norms as test_threads.cpp runs them.
#pragma once

#include <vector>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {

/// Calls add(name of the op, function that runs it) for rows of features, and for images.
template <class T, class Add>
void add_batch_norms(Numbers& numbers, Add add) {
  using Results = std::vector<Tensor>;
  for (const Shape& shape : {Shape{1003, 202}, Shape{7, 11, 61, 67}}) {
    const auto empty = [](const Shape& of) { return Tensor::full(of, -77, dtype_of<T>); };
    const auto random = [&](const Shape& of) { return random_tensor<T>(of, numbers, -3, 3); };
    const Shape channels{shape[1]}, two{2, shape[1]};
    const Tensor x = random(shape), dy = random(shape), residual = random(shape);
    const Tensor weight = random(channels), bias = random(channels), mean = random(channels);
    const Tensor var = random_tensor<T>(channels, numbers, 0.5, 2), sums = random(two);
    const ops::BatchNormArgs args{1e-5, {math::SiLU{}, {math::dropout_mask(0.3, 5, 6, 7), 3}}};
    add(ops::batch_norm_statistics.name, [=] {
      Tensor center = empty(channels), spread = empty(channels);
      Tensor running = mean.clone(), running_var = var.clone();
      Tensor count = Tensor::full({}, 4, DType::int64);
      ops::batch_norm_statistics(x, center, spread, running, running_var, count, std::nullopt);
      return Results{center, spread, running, running_var, count};
    });
    add(ops::batch_norm_forward.name, [=] {
      Tensor y = empty(shape);
      ops::batch_norm_forward(x, mean, var, weight, bias, residual, y, args);
      return Results{y};
    });
    add(ops::batch_norm_backward_sums.name, [=] {
      Tensor dz = empty(shape), of_z = empty(two), dw = empty(channels), db = bias.clone();
      ops::batch_norm_backward_sums(x, mean, var, weight, bias, residual, dy, dz, of_z, dw, db,
                                    args, {.accumulate_bias = true});
      return Results{dz, of_z, dw, db};
    });
    add(ops::batch_norm_backward.name, [=] {
      Tensor dx = empty(shape);
      ops::batch_norm_backward(x, mean, var, weight, dy, sums, dx, 1e-5);
      return Results{dx};
    });
  }
}

}  // namespace sinter
