// Batch normalisation, with running statistics for eval mode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/norm_module.h>

namespace sinter {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< none: the running statistics average all batches
  bool affine = true;                    ///< a weight and a bias for each channel
  bool track_running_stats = true;       ///< else a batch's own statistics in eval mode too
  std::optional<math::AnyActivation> act = std::nullopt;  ///< behind the norm, in the same pass
  double drop_p = 0.0;                                    ///< and dropout, in train mode
};

/// sinter::batch_norm with weight [num_features], ones at first, and bias, zeros, and the buffers
/// running_mean, zeros at first, running_var, ones, and num_batches_tracked.
class BatchNorm : public NormModule {
 public:
  /// x alone, or with a residual of its shape that is added before the activation:
  /// dropout(act(norm(x) + residual)). Call it as layer(x), or as layer.forward(x, residual) in a
  /// module of one's own.
  Tensor forward(const Tensor& x) override { return forward(x, Tensor{}); }
  Tensor forward(const Tensor& x, const Tensor& residual);
  Tensor forward(const Tensor& x, const math::AnyActivation& act,
                 const DropoutOptions& dropout) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  std::int64_t num_features() const { return num_features_; }
  /// Drawn on first use, absent without affine, as bias is.
  Parameter& weight();
  Parameter& bias();

 protected:
  /// `name` as Sequential::parse knows it; inputs have `least_rank` to `most_rank` dimensions,
  /// `expected` in words.
  BatchNorm(const char* name, const char* expected, int least_rank, int most_rank,
            std::int64_t num_features, const BatchNormOptions& options);

 private:
  void check_input(const Tensor& x) const;
  Tensor run(const Tensor& x, const BatchNormTail& tail);

  const char* name_;
  const char* expected_;
  int least_rank_, most_rank_;
  std::int64_t num_features_;
  BatchNormOptions options_;
  Parameter weight_, bias_;
  Buffer running_mean_, running_var_, num_batches_tracked_;
};

/// For inputs [N, C] and [N, C, L].
class BatchNorm1d : public BatchNorm {
 public:
  /// Throws Error for num_features below 1, eps not above 0, momentum and drop_p outside [0, 1],
  /// and parameters of the activation outside their range.
  explicit BatchNorm1d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("batch_norm1d", "[N, C] or [N, C, L]", 2, 3, num_features, options) {}
};

/// For inputs [N, C, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  /// Throws Error as BatchNorm1d's does.
  explicit BatchNorm2d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("batch_norm2d", "[N, C, H, W]", 4, 4, num_features, options) {}
};

}  // namespace sinter
