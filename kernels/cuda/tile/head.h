// The last Linear and its loss: see ops::linear_cross_entropy.
#pragma once

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/tile/tile.h>

namespace sinter::cuda::tile {

/// Whether there is a kernel for so many rows and classes; each block reads all labels.
bool takes_head(const Tensor& x, const Tensor& weight);

/// The tensors behind the pointers of a call; class_weights and dlogits may be undefined.
struct HeadTensors {
  Tensor labels;
  Tensor class_weights;
  Tensor loss;
  Tensor dlogits;
};
/// `call` has no logits.
void linear_cross_entropy(In x, In weight, In bias, In kept, Out dx,
                          const CrossEntropy<float>& call, const HeadTensors& tensors,
                          const ops::ActivationArgs& args);

}  // namespace sinter::cuda::tile
