// How linears_sgd_update and linears_adam_update are computed where there is no kernel for all of
// it: one gradient after the other, each stored and used at once.
#pragma once

#include <cstddef>
#include <vector>

#include <sinter/kernels/ops.h>

namespace sinter {

namespace detail {

template <class Update>
void update_one(Update update, Tensor& p, const Tensor& g, std::size_t i, const InOuts& state,
                const ops::SgdArgs& args) {
  Tensor none;
  update(p, g, state.size() == 0 ? none : state[i], args);
}

template <class Update>
void update_one(Update update, Tensor& p, const Tensor& g, std::size_t i, const InOuts& state,
                const ops::AdamArgs& args) {
  update(p, g, state[2 * i], state[2 * i + 1], args);
}

}  // namespace detail

/// `gradients` and `update` are a device's weight_gradients and sgd_update or adam_update.
template <class Gradients, class Update, class Args>
void update_one_by_one(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                       InOuts bias_state, Gradients gradients, Update update, const Args& args) {
  const auto like = [](const Tensor& p) {
    return p.defined() ? Tensor::empty(p.shape(), p.dtype(), p.device()) : Tensor{};
  };
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::vector<Tensor> dy_i{dy[i]}, x_i{x[i]};
    std::vector<Tensor> dw{like(weights[i])}, db{like(biases[i])};
    gradients(dy_i, x_i, dw, db, {{}});
    detail::update_one(update, weights[i], dw[0], i, weight_state, args);
    if (biases[i].defined()) {
      detail::update_one(update, biases[i], db[0], i, bias_state, args);
    }
  }
}

}  // namespace sinter
