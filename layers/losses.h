// Losses as objects, for a Trainer; the functions are in autograd/functions.h.
#pragma once

#include <sinter/autograd/functions.h>

namespace sinter {

/// cross_entropy(logits, labels) with its options, CrossEntropyLoss{{.label_smoothing = 0.1}}.
struct CrossEntropyLoss {
  CrossEntropyOptions options = {};
  Tensor operator()(const Tensor& logits, const Tensor& labels) const {
    return cross_entropy(logits, labels, options);
  }
};

/// mse_loss(x, target) with its options.
struct MSELoss {
  MseOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& target) const {
    return mse_loss(x, target, options);
  }
};

}  // namespace sinter
