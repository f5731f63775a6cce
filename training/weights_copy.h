// What a model has learned at some moment, kept beside it.
#pragma once

#include <vector>

#include <sinter/layers/module.h>
#include <sinter/training/state.h>

namespace sinter {

/// The values of a model's parameters and buffers when it was made, on the device where they were.
class WeightsCopy {
 public:
  explicit WeightsCopy(Module& model);
  /// Writes them back, to wherever the parameters are by now. The model must be the one that was
  /// copied, with the same members.
  void restore() const;
  /// Its values, "copy.0.weight", for those who keep one.
  void visit(StateVisitor& visitor) const;

 private:
  Module& model_;
  std::vector<Tensor> parameters_;
  std::vector<Tensor> buffers_;
};

}  // namespace sinter
