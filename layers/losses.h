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

// L1Loss, HuberLoss{{.delta = 2}} and so on: each is its function with options.
#define SINTER_LOSS(Name, Options, function)                              \
  struct Name {                                                           \
    Options options = {};                                                 \
    Tensor operator()(const Tensor& output, const Tensor& target) const { \
      return function(output, target, options);                           \
    }                                                                     \
  };
SINTER_LOSS(NLLLoss, NllOptions, nll_loss)
SINTER_LOSS(L1Loss, L1Options, l1_loss)
SINTER_LOSS(MSELoss, MseOptions, mse_loss)
SINTER_LOSS(HuberLoss, HuberOptions, huber_loss)
SINTER_LOSS(SmoothL1Loss, SmoothL1Options, smooth_l1_loss)
SINTER_LOSS(BCEWithLogitsLoss, BceWithLogitsOptions, binary_cross_entropy_with_logits)
SINTER_LOSS(KLDivLoss, KlDivOptions, kl_div)
#undef SINTER_LOSS

}  // namespace sinter
