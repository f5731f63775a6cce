// Normalisation of rows, with weights of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/norm_module.h>

namespace sinter {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  ///< a weight for each element of normalized_shape
  bool bias = true;                ///< and a bias
  std::optional<math::AnyActivation> act = std::nullopt;  ///< behind the norm, in the same pass
  double drop_p = 0.0;                                    ///< and dropout, in train mode
};

/// sinter::layer_norm over the last dimensions; weight [normalized_shape] starts as ones, bias as
/// zeros.
class LayerNorm : public NormModule {
 public:
  /// Throws Error for a shape without elements, for eps that is negative or not finite, a drop_p
  /// outside [0, 1], and parameters of the activation outside their range.
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  /// Over the last dimension alone.
  explicit LayerNorm(std::int64_t features, const LayerNormOptions& options = {})
      : LayerNorm(Shape{features}, options) {}

  Tensor forward(const Tensor& x) override { return run(x, {act(), dropout_now()}); }
  Tensor forward(const Tensor& x, const math::AnyActivation& act,
                 const DropoutOptions& dropout) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use, absent without elementwise_affine.
  Parameter& weight();
  /// Absent without bias too.
  Parameter& bias();

 private:
  Tensor run(const Tensor& x, const NormTail& tail);

  Shape normalized_shape_;
  LayerNormOptions options_;
  Parameter weight_;
  Parameter bias_;
};

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  ///< else 2^-23, for float64 2^-52
  bool elementwise_affine = true;            ///< a weight for each element of normalized_shape
  std::optional<math::AnyActivation> act = std::nullopt;  ///< as LayerNormOptions's
  double drop_p = 0.0;
};

/// sinter::rms_norm over the last dimensions; weight [normalized_shape] starts as ones.
class RMSNorm : public NormModule {
 public:
  /// Throws Error as LayerNorm's does.
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(std::int64_t features, const RMSNormOptions& options = {})
      : RMSNorm(Shape{features}, options) {}

  Tensor forward(const Tensor& x) override { return run(x, {act(), dropout_now()}); }
  Tensor forward(const Tensor& x, const math::AnyActivation& act,
                 const DropoutOptions& dropout) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use, absent without elementwise_affine.
  Parameter& weight();

 private:
  Tensor run(const Tensor& x, const NormTail& tail);

  Shape normalized_shape_;
  RMSNormOptions options_;
  Parameter weight_;
};

}  // namespace sinter
