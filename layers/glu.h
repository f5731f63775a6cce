// Gated linear units: plain aggregates with named fields, made into modules when a Sequential takes
// them.
#pragma once

#include <string>

#include <sinter/layers/activations.h>
#include <sinter/layers/module.h>

namespace sinter {

/// dropout(a * act(b)) for the two halves a and b of the last dimension, in one pass, e.g.
/// GLU{.act = math::Tanh{}, .drop_p = 0.1}; put a Linear of twice the width before it. Dropout acts
/// in train mode only.
struct GLU {
  NamedFieldsOnly named_fields_only = NamedFieldsOnly{};
  math::AnyActivation act = math::Sigmoid{};
  double drop_p = 0.0;
};

/// GLU with the gates of Shazeer, "GLU variants improve transformer", 2020.
template <class Gate>
struct GatedLayer {
  NamedFieldsOnly named_fields_only = NamedFieldsOnly{};
  double drop_p = 0.0;

  operator GLU() const { return {.act = Gate{}, .drop_p = drop_p}; }
};
using SwiGLU = GatedLayer<math::SiLU>;
using GEGLU = GatedLayer<math::GELU>;
using ReGLU = GatedLayer<math::ReLU>;

/// What a GLU becomes in a Sequential.
struct GLUModule : Module {
  math::AnyActivation act;
  double drop_p;

  /// Throws Error for a drop_p outside [0, 1] and for parameters of the gate outside their range.
  explicit GLUModule(const GLU& layer);
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;
};

}  // namespace sinter
