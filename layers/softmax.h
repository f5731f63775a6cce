// Softmax over the last dimension as layers.
#pragma once

#include <string>

#include <sinter/layers/module.h>

namespace sinter {

/// A classifier that is trained by cross entropy wants none of these at its end: the loss takes
/// logits.
class Softmax : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;
};

class LogSoftmax : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;
};

class Softmin : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;
};

}  // namespace sinter
