// How ops that are several in one are computed where a device has no kernel for all of it: one
// after the other, each result stored and used at once.
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

/// linear_cross_entropy by a device's linear_forward, cross_entropy and linear_backward_input.
template <class Forward, class Entropy, class BackwardInput>
void linear_cross_entropy_one_by_one(In x, In weight, In bias, In labels, In class_weights, In kept,
                                     Out loss, Out dlogits, Out dx,
                                     const ops::CrossEntropyArgs& loss_args,
                                     const ops::ActivationArgs& args, Forward forward,
                                     Entropy entropy, BackwardInput backward_input) {
  Tensor logits = Tensor::empty({x->shape().rows(), weight->size(0)}, x->dtype(), x->device());
  Tensor none;
  forward(x, weight, bias, none, logits, ops::ActivationArgs{});
  entropy(logits, labels, class_weights, loss, dlogits, loss_args);
  if (dx->defined()) {
    backward_input(*dlogits, weight, kept, dx, args);
  }
}

/// linears_sgd_update and linears_adam_update: `gradients` and `update` are a device's
/// weight_gradients and sgd_update or adam_update.
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
