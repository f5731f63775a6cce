// Convolutions and pools on images large enough to be cut into pieces, for test_threads.cpp.
#pragma once

#include "compare.h"
#include "runs.h"
#include <sinter/kernels/ops.h>

namespace sinter {

template <class T>
NamedRuns image_runs(Numbers& numbers) {
  NamedRuns runs;
  const auto random = [&](const Shape& shape) { return random_tensor<T>(shape, numbers, -3, 3); };
  const auto empty = [](const Shape& shape) { return Tensor::full(shape, -77, dtype_of<T>); };
  const ops::Conv2dArgs conv{.stride = {1, 2}, .padding = 1, .dilation = {2, 1}, .groups = 2};
  const Shape of_x{5, 18, 41, 37}, of_weight{20, 9, 3, 3}, of_y{5, 20, 39, 19};
  const Tensor x = random(of_x), dy = random(of_y), weight = random(of_weight), bias = random({20});
  runs.emplace_back(ops::conv2d_forward.name, [=] {
    Tensor y = empty(of_y);
    ops::conv2d_forward(x, weight, bias, y, conv);
    return Results{y};
  });
  runs.emplace_back(ops::conv2d_backward_input.name, [=] {
    Tensor dx = empty(of_x);
    ops::conv2d_backward_input(dy, weight, dx, conv);
    return Results{dx};
  });
  runs.emplace_back(ops::conv2d_backward_weight.name, [=] {
    Tensor dw = empty(of_weight), more = weight.clone();
    ops::conv2d_backward_weight(x, dy, dw, conv, false);
    ops::conv2d_backward_weight(x, dy, more, conv, true);
    return Results{dw, more};
  });
  // Windows that overlap, so that several add to one element.
  const ops::Pool2dArgs pool{.kernel = 3, .stride = {1, 2}, .padding = 1};
  const Shape of_pool{5, 18, 41, 19};
  const Tensor dpool = random(of_pool);
  runs.emplace_back(ops::avg_pool2d_forward.name, [=] {
    Tensor y = empty(of_pool), adaptive = empty({5, 18, 7, 50});
    ops::avg_pool2d_forward(x, y, pool);
    ops::avg_pool2d_forward(x, adaptive, {.adaptive = true});
    return Results{y, adaptive};
  });
  runs.emplace_back(ops::avg_pool2d_backward.name, [=] {
    Tensor dx = empty(of_x);
    ops::avg_pool2d_backward(dpool, dx, pool);
    return Results{dx};
  });
  runs.emplace_back(ops::max_pool2d_forward.name, [=] {
    Tensor y = empty(of_pool);
    ops::max_pool2d_forward(x, y, pool);
    return Results{y};
  });
  runs.emplace_back(ops::max_pool2d_backward.name, [=] {
    Tensor dx = empty(of_x);
    ops::max_pool2d_backward(x, dpool, dx, pool);
    return Results{dx};
  });
  return runs;
}

}  // namespace sinter
