// Attention with its projections.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

struct MultiheadAttentionOptions {
  double drop_p = 0.0;  ///< of the attention weights, in train mode only; torch's `dropout`
  bool bias = true;     ///< of both projections
  bool causal = false;  ///< position i attends to positions 0 to i only
};

/// Self-attention, batch first: x [batch, length, embed_dim] to the same shape, which is
/// linear(self_attention(linear(x))). Parameters are torch.nn.MultiheadAttention's in name, shape
/// and initial values: in_proj_weight [3 embed_dim, embed_dim] (Xavier uniform: Glorot and Bengio,
/// "Understanding the difficulty of training deep feedforward neural networks", 2010),
/// in_proj_bias, out_proj.weight [embed_dim, embed_dim] (uniform as Linear's), out_proj.bias; the
/// biases start as zeros. The attention itself has a CPU kernel only, see sinter::self_attention.
class MultiheadAttention : public Module {
 public:
  /// Throws Error unless num_heads divides embed_dim, and for a drop_p outside [0, 1].
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  Tensor forward(const Tensor& x) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  std::int64_t embed_dim_;
  std::int64_t num_heads_;
  MultiheadAttentionOptions options_;
  Parameter in_weight_;
  Parameter in_bias_;
  Parameter out_weight_;
  Parameter out_bias_;
};

}  // namespace sinter
