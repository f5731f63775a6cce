// The activation layers and Dropout: plain aggregates with named fields, made into modules when a
// Sequential takes them.
#pragma once

#include <memory>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

/// First member of a layer whose options must be named: ReLU{.drop_p = 0.1} compiles, ReLU{0.1},
/// in which a number could be taken for another option, does not.
struct NamedFieldsOnly {
  explicit NamedFieldsOnly() = default;
};

/// dropout(act(x)) in one pass, e.g. ReLU{.drop_p = 0.1} or
/// LeakyReLU{.act = {.negative_slope = 0.1}, .drop_p = 0.1}. Dropout acts in train mode only.
template <class A>
struct ActivationLayer {
  NamedFieldsOnly named_fields_only = NamedFieldsOnly{};
  A act = {};
  double drop_p = 0.0;

  /// For use outside a model. Throws Error with drop_p > 0: masks come from a model's generator, so
  /// such a layer belongs in a Sequential.
  Tensor operator()(const Tensor& x) const {
    check(drop_p == 0,
          "an activation layer with drop_p called by itself: put it into a Sequential, "
          "which gives it random numbers and a train/eval mode, or call the function with a "
          "generator");
    return activation(x, act);
  }
};

// ReLU, GELU, LeakyReLU and so on, for the whole list of kernels/math/activations.h.
#define SINTER_LAYER(Type, function) using Type = ActivationLayer<math::Type>;
SINTER_ACTIVATIONS(SINTER_LAYER)
#undef SINTER_LAYER

/// In train mode each element is 0 with probability p, else scaled to keep the mean.
struct Dropout {
  NamedFieldsOnly named_fields_only = NamedFieldsOnly{};
  double p = 0.5;
};

/// Dropout as it applies to a module now: none in eval mode.
DropoutOptions dropout_of(Module& module, double p);

/// What an activation layer becomes in a Sequential.
struct ActivationModule : Module {
  math::AnyActivation act;
  double drop_p;

  /// Throws Error for a drop_p outside [0, 1] and for parameters outside their range.
  ActivationModule(const math::AnyActivation& activation, double probability);
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;
  /// Dropout as it applies now: none in eval mode.
  DropoutOptions dropout_now();
};

/// What Dropout becomes in a Sequential.
struct DropoutModule : Module {
  double p;

  explicit DropoutModule(double probability);
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;
  DropoutOptions dropout_now();
};

}  // namespace sinter
