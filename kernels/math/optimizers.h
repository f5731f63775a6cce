#pragma once

// The update of one parameter element by SGD, Adam and AdamW, as torch.optim computes them. The
// constants of a step are prepared once, outside the loop, so that every variant (first step or
// not, L2 or decoupled decay) is the same straight line of arithmetic and a plain loop over it
// vectorises. State starts as zeros. T is the type the constants are held in, V the type computed
// in.

#include <cstdint>

#include <sinter/kernels/math/functions.h>
#include <sinter/kernels/math/hd.h>

namespace sinter::math {

// A moving average under gradients of 0 decays to a subnormal number and stays there, since 4 units
// times 0.9 round to 4. Nobody misses what is below the smallest normal number, and processors take
// a hundred cycles for an operation on it.
template <class V>
SINTER_HD V without_subnormals(V x) {
  return select(abs(x) < splat<V>(is_float32<V> ? 0x1p-126 : 0x1p-1022), splat<V>(0), x);
}

// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013, for
// Nesterov's form; PyTorch scales by lr when applying the velocity, not when adding the gradient.
struct SgdOptions {
  double lr = 0.001;
  double momentum = 0;
  double dampening = 0;  // without momentum it has no effect, as in PyTorch
  double weight_decay = 0;
  bool nesterov = false;
};

template <class T>
struct SgdConstants {
  T lr;
  T momentum;
  T gain;  // of the gradient in the velocity: 1 - dampening, but 1 on the first step
  T weight_decay;
  bool nesterov;
};

// As kernels take them that compute in float32.
SINTER_HD constexpr SgdConstants<float> narrowed(const SgdConstants<double>& c) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(c.lr), f(c.momentum), f(c.gain), f(c.weight_decay), c.nesterov};
}

template <class T>
SINTER_HD constexpr SgdConstants<T> sgd_constants(const SgdOptions& o, bool first_step) {
  return {static_cast<T>(o.lr), static_cast<T>(o.momentum),
          static_cast<T>(first_step ? 1 : 1 - o.dampening), static_cast<T>(o.weight_decay),
          o.nesterov};
}

// Without momentum: no velocity is kept.
template <class V, class T>
SINTER_HD void sgd_step(V& parameter, V gradient, const SgdConstants<T>& c) {
  const V slope = gradient + splat<V>(c.weight_decay) * parameter;
  parameter = parameter - splat<V>(c.lr) * slope;
}

template <class V, class T>
SINTER_HD void sgd_step(V& parameter, V gradient, V& velocity, const SgdConstants<T>& c) {
  const V slope = gradient + splat<V>(c.weight_decay) * parameter;
  const V momentum = splat<V>(c.momentum);
  velocity = without_subnormals(momentum * velocity + splat<V>(c.gain) * slope);
  const V direction = c.nesterov ? slope + momentum * velocity : velocity;
  parameter = parameter - splat<V>(c.lr) * direction;
}

// What a gradient is multiplied with to hold its norm to `most`, as torch.nn.utils.clip_grad_norm_
// does; NaN for a norm that is NaN.
SINTER_HD constexpr double clip_factor(double norm, double most) {
  const double factor = most / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

// A loss scale after a step, as torch.amp.GradScaler has it. `clean`: steps without an overflow
// since it last changed.
SINTER_HD void update_scale(float& scale, std::int64_t& clean, std::int64_t& skipped,
                            bool overflowed, double growth, double backoff, std::int64_t interval) {
  if (overflowed) {
    // Never so small that its inverse is not a float32.
    const float shrunk = static_cast<float>(scale * backoff);
    scale = shrunk < 0x1p-126f ? 0x1p-126f : shrunk;
    clean = 0;
    ++skipped;
  } else if (++clean >= interval) {
    const float grown = static_cast<float>(scale * growth);
    scale = grown <= 0x1.fffffep127f ? grown : scale;
    clean = 0;
  }
}

// Kingma & Ba, "Adam: A Method for Stochastic Optimization", 2015; decoupled: Loshchilov & Hutter,
// "Decoupled Weight Decay Regularization" (AdamW), 2019. PyTorch's default weight_decay for AdamW
// is 0.01, for Adam 0.
struct AdamOptions {
  double lr = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool amsgrad = false;  // by the largest square so far: see update_rules.h
};

template <class T>
struct AdamConstants {
  T one_minus_beta1;  // prepared in float64: 1 - 0.999f would be off by 1e-5 relative
  T beta2;
  T one_minus_beta2;
  T step_size;     // lr / (1 - beta1^t)
  T inverse_root;  // 1 / sqrt(1 - beta2^t)
  T eps;
  T weight_decay;  // added to the gradient: 0 when decoupled
  T keep;          // of the parameter: 1 - lr * weight_decay when decoupled, else 1
};

SINTER_HD constexpr AdamConstants<float> narrowed(const AdamConstants<double>& c) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(c.one_minus_beta1), f(c.beta2), f(c.one_minus_beta2), f(c.step_size),
          f(c.inverse_root),    f(c.eps),   f(c.weight_decay),    f(c.keep)};
}

// correction1 = 1 - beta1^t and correction2 = 1 - beta2^t, t counted from 1.
template <class T>
SINTER_HD AdamConstants<T> adam_constants(const AdamOptions& o, double correction1,
                                          double correction2) {
  return {static_cast<T>(1 - o.beta1),
          static_cast<T>(o.beta2),
          static_cast<T>(1 - o.beta2),
          static_cast<T>(o.lr / correction1),
          static_cast<T>(1 / sqrt(correction2)),
          static_cast<T>(o.eps),
          static_cast<T>(o.decoupled ? 0 : o.weight_decay),
          static_cast<T>(o.decoupled ? 1 - o.lr * o.weight_decay : 1)};
}

template <class V, class T>
SINTER_HD void adam_step(V& parameter, V gradient, V& mean, V& square, const AdamConstants<T>& c) {
  const V kept = splat<V>(c.keep) * parameter;
  const V slope = gradient + splat<V>(c.weight_decay) * parameter;
  mean = without_subnormals(mean + splat<V>(c.one_minus_beta1) * (slope - mean));
  square = splat<V>(c.beta2) * square + splat<V>(c.one_minus_beta2) * slope * slope;
  const V root = sqrt(square) * splat<V>(c.inverse_root) + splat<V>(c.eps);
  parameter = kept - splat<V>(c.step_size) * mean / root;
}

}  // namespace sinter::math
