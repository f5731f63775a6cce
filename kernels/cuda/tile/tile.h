// Linears small enough for one kernel each: TF32 products on the tensor cores with all that goes
// before or after them in the same kernel, launched while the kernel before is still running.
// kernels/ops.h says what each computes. A product's factors are rounded to TF32, to nearest; its
// sums are float32, in an order that depends on the sizes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/kernels/ops.h>

namespace sinter::cuda::tile {

/// Whether there is a kernel here for the three products of a Linear of these sizes, and whether it
/// is the faster one. `tensor`: any of the operands.
bool takes(const Tensor& tensor, std::int64_t rows, std::int64_t in, std::int64_t out);

void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args);
void linear_backward_input(In dy, In weight, In kept, Out dx, const ops::ActivationArgs& args);
/// Of Linears begin to end - 1.
void weight_gradients(Ins dy, Ins x, InOuts dw, InOuts db,
                      const std::vector<ops::WeightGradientFlags>& flags, std::size_t begin,
                      std::size_t end);

/// A Linear whose parameters are updated by the gradients that weight_gradients() gives, without
/// these ever being stored: bit for bit what the flat update makes of them.
struct UpdatedLinear {
  Tensor dy;
  Tensor x;
  Tensor weight;
  Tensor bias;  ///< or undefined
  /// Velocity or nothing (SGD), or mean and square (Adam), as the parameters lie.
  Tensor weight_state[2];
  Tensor bias_state[2];
};
/// While a graph is recorded, its updates do nothing after a fault.
void update_linears(const std::vector<UpdatedLinear>& linears, const ops::SgdArgs& args);
void update_linears(const std::vector<UpdatedLinear>& linears, const ops::AdamArgs& args);

}  // namespace sinter::cuda::tile
