// Updates of parameters, for test_threads.cpp.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "compare.h"
#include "runs.h"
#include <sinter/kernels/ops.h>

namespace sinter {

template <class T>
NamedRuns optimizer_runs(Numbers& numbers) {
  NamedRuns runs;
  const auto add = [&](const auto& op, std::function<Results()> run) {
    runs.emplace_back(op.name, std::move(run));
  };
  const auto random = [&](const Shape& shape) { return random_tensor<T>(shape, numbers, -3, 3); };
  const auto empty = [](const Shape& shape) { return Tensor::full(shape, -77, dtype_of<T>); };

  const Tensor p = random({150001});
  const Tensor g = random({150001});
  const Tensor m = random({150001});
  const Tensor v = random_tensor<T>({150001}, numbers, 0, 1);
  add(ops::sgd_update, [=] {
    Tensor parameter = p.clone();
    Tensor velocity = m.clone();
    ops::sgd_update(parameter, g, velocity,
                    math::sgd_constants<double>({.lr = 0.1, .momentum = 0.9}, false));
    return Results{parameter, velocity};
  });
  add(ops::adam_update, [=] {
    Tensor parameter = p.clone();
    Tensor mean = m.clone();
    Tensor square = v.clone();
    ops::adam_update(parameter, g, mean, square, math::adam_constants<double>({}, 0.5, 0.1));
    return Results{parameter, mean, square};
  });
  add(ops::rule_update, [=] {
    Tensor parameter = p.clone();
    Results state{v.clone(), m.clone(), m.clone()};
    ops::rule_update(
        parameter, g, state,
        {math::RmspropRule<double, true, true>{0.1, 0.9, 0.1, 1e-8, 0.01, 0.5}, Tensor{}});
    return Results{parameter, state[0], state[1], state[2]};
  });
  add(ops::clip_norm, [=] {
    Results tensors{p.clone(), g.clone()};
    Tensor norm = empty({}), absent;
    ops::clip_norm(tensors, Tensor{}, norm, absent, 3);
    return Results{tensors[0], tensors[1], norm};
  });
  add(ops::clip_value, [=] {
    Results tensors{p.clone(), g.clone()};
    ops::clip_value(tensors, 0.25);
    return tensors;
  });
  add(ops::scale_update, [] {
    Tensor scale = Tensor::full({}, 8), clean = Tensor::zeros({}, DType::int64);
    Tensor skipped = Tensor::zeros({}, DType::int64);
    ops::scale_update(scale, clean, skipped, Tensor::full({}, 1, DType::int32), {});
    return Results{scale, clean, skipped};
  });
  const std::vector<Tensor> dy{random({301, 65}), random({301, 9})};
  const std::vector<Tensor> x{random({301, 130}), random({301, 65})};
  const Results weights{random({65, 130}), random({9, 65})}, biases{random({65}), Tensor{}};
  const Results squares{random_tensor<T>({65, 130}, numbers, 0, 1),
                        random_tensor<T>({9, 65}, numbers, 0, 1)};
  const Tensor bias_square = random_tensor<T>({65}, numbers, 0, 1);
  const auto clones = [](const Results& tensors) {
    Results out;
    for (const Tensor& tensor : tensors) {
      out.push_back(tensor.defined() ? tensor.clone() : Tensor{});
    }
    return out;
  };
  add(ops::linears_sgd_update, [=] {
    Results w = clones(weights), b = clones(biases), none;
    ops::linears_sgd_update(dy, x, w, b, none, none,
                            math::sgd_constants<double>({.lr = 0.1}, false));
    return Results{w[0], b[0], w[1]};
  });
  add(ops::linears_adam_update, [=] {
    Results w = clones(weights), b = clones(biases);
    Results w_state = clones({weights[0], squares[0], weights[1], squares[1]});
    Results b_state = clones({biases[0], bias_square, Tensor{}, Tensor{}});
    ops::linears_adam_update(dy, x, w, b, w_state, b_state,
                             math::adam_constants<double>({}, 0.5, 0.1));
    return Results{w[0], b[0], w[1], w_state[0], w_state[3], b_state[0]};
  });
  return runs;
}

}  // namespace sinter
