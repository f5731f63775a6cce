// Convolutions of images and of sequences, with weights of their own.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

struct Conv2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;  ///< zeros on each side
  Size2d dilation = 1;
  std::int64_t groups = 1;  ///< each sees its own share of the channels
  bool bias = true;
};

/// sinter::conv2d, [N, in_channels, H, W] to [N, out_channels, H', W'], as in
/// Conv2d{1, 6, 5, {.padding = 2}} or Conv2d{6, 16, {3, 5}}. weight [out_channels, in_channels /
/// groups, kernel height, kernel width] and bias [out_channels] start uniform in +-1 /
/// sqrt(elements under a kernel), as torch.nn.Conv2d's do (He et al., "Delving deep into
/// rectifiers", 2015, with a = sqrt(5)).
class Conv2d : public Module {
 public:
  /// Throws Error for sizes below 1, a negative padding, and groups that do not divide both
  /// channels.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel_size,
         const Conv2dOptions& options = {});

  Tensor forward(const Tensor& x) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use.
  Parameter& weight();
  /// Absent without bias.
  Parameter& bias();

 private:
  std::int64_t in_channels_;
  std::int64_t out_channels_;
  Size2d kernel_size_;
  Conv2dOptions options_;
  Parameter weight_;
  Parameter bias_;
};

struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// The same for [N, in_channels, L]; weight [out_channels, in_channels / groups, kernel_size].
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const Conv1dOptions& options = {});

  Tensor forward(const Tensor& x) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use.
  Parameter& weight();
  /// Absent without bias.
  Parameter& bias();

 private:
  std::int64_t in_channels_;
  std::int64_t out_channels_;
  std::int64_t kernel_size_;
  Conv1dOptions options_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sinter
