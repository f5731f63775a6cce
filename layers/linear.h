// The fully connected layer.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

struct LinearOptions {
  bool bias = true;
};

/// y = x w^T + b: x [..., in_features], weight [out_features, in_features], y [..., out_features].
/// Weight and bias start uniform in +-1 / sqrt(in_features), as torch.nn.Linear's do (He et al.,
/// "Delving deep into rectifiers", 2015, with a = sqrt(5)).
class Linear : public Module {
 public:
  /// Throws Error for sizes below 1.
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {});

  Tensor forward(const Tensor& x) override;
  /// dropout(act(forward(x))) as one product and one pass over its result.
  Tensor forward(const Tensor& x, const math::AnyActivation& act, const DropoutOptions& dropout);
  /// Throws Error for an input that forward() does not take.
  void check_input(const Tensor& x) const;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  std::int64_t in_features() const { return in_features_; }
  std::int64_t out_features() const { return out_features_; }
  /// Drawn on first use.
  Parameter& weight();
  /// Absent without bias.
  Parameter& bias();

 private:
  std::int64_t in_features_;
  std::int64_t out_features_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sinter
