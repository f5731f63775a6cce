// Pools over images and sequences. They have no parameters.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

// Constructors throw Error for options that the function would refuse.

/// sinter::max_pool2d, [N, C, H, W] to [N, C, H', W'], as in MaxPool2d{2} or
/// MaxPool2d{3, {.stride = 2, .padding = 1}}.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2d kernel_size, const MaxPool2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  Size2d kernel_size_;
  MaxPool2dOptions options_;
};

/// sinter::avg_pool2d.
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Size2d kernel_size, const AvgPool2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  Size2d kernel_size_;
  AvgPool2dOptions options_;
};

/// sinter::avg_pool1d, [N, C, L] to [N, C, L'].
class AvgPool1d : public Module {
 public:
  explicit AvgPool1d(std::int64_t kernel_size, const AvgPool1dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  std::int64_t kernel_size_;
  AvgPool1dOptions options_;
};

/// sinter::adaptive_avg_pool2d: images of any size to [N, C, output_size].
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Size2d output_size);
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  Size2d output_size_;
};

}  // namespace sinter
