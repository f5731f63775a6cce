// Makes each image one row, as Linear takes it.
#pragma once

#include <string>

#include <sinter/layers/module.h>

namespace sinter {

/// Dimensions from `start_dim` on become one: [64, 1, 28, 28] to [64, 784]. Costs nothing.
class Flatten : public Module {
 public:
  explicit Flatten(int start_dim = 1) : start_dim_(start_dim) {}
  Tensor forward(const Tensor& x) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

 private:
  int start_dim_;
};

}  // namespace sinter
