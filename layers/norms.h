// Normalisation of rows, with weights of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  ///< a weight for each element of normalized_shape
  bool bias = true;                ///< and a bias
};

/// sinter::layer_norm over the last dimensions; weight [normalized_shape] starts as ones, bias as
/// zeros.
class LayerNorm : public Module {
 public:
  /// Throws Error for a shape without elements, and for eps that is negative or not finite.
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  /// Over the last dimension alone.
  explicit LayerNorm(std::int64_t features, const LayerNormOptions& options = {})
      : LayerNorm(Shape{features}, options) {}

  Tensor forward(const Tensor& x) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use, absent without elementwise_affine.
  Parameter& weight();
  /// Absent without bias too.
  Parameter& bias();

 private:
  Shape normalized_shape_;
  LayerNormOptions options_;
  Parameter weight_;
  Parameter bias_;
};

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  ///< else 2^-23, for float64 2^-52
  bool elementwise_affine = true;            ///< a weight for each element of normalized_shape
};

/// sinter::rms_norm over the last dimensions; weight [normalized_shape] starts as ones.
class RMSNorm : public Module {
 public:
  /// Throws Error as LayerNorm's does.
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(std::int64_t features, const RMSNormOptions& options = {})
      : RMSNorm(Shape{features}, options) {}

  Tensor forward(const Tensor& x) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use, absent without elementwise_affine.
  Parameter& weight();

 private:
  Shape normalized_shape_;
  RMSNormOptions options_;
  Parameter weight_;
};

}  // namespace sinter
