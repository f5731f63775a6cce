// Softmax over the last dimension as layers.
#pragma once

#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

struct SoftmaxOptions {
  double drop_p = 0.0;  ///< dropout behind it, in the same pass, in train mode
};

/// A classifier that is trained by cross entropy wants none of these at its end: the loss takes
/// logits. In torch's names of parameters drop_p counts as a module of its own. A Sequential gives
/// a Softmax that has none that of the Dropout behind it.
class Softmax : public Module {
 public:
  /// Throws Error for a drop_p outside [0, 1].
  explicit Softmax(const SoftmaxOptions& options = {});
  double drop_p() const { return drop_p_; }

  Tensor forward(const Tensor& x) override;
  /// dropout(forward(x)) in the same pass. Throws Error where it has dropout of its own.
  Tensor forward(const Tensor& x, const DropoutOptions& dropout);
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  double drop_p_;
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
