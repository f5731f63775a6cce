// CUDA's column of the op table; kernels/ops.h says what each op computes. Elements are float32,
// float16 or bfloat16: float64 falls back to the CPU.
#pragma once

#include <sinter/kernels/ops.h>

namespace sinter::cuda {

void activation_forward(In x, Out y, const ops::ActivationArgs& args);
void activation_backward(In kept, In dy, Out dx, const ops::ActivationArgs& args);
void activation_backward_bias(In kept, In dy, Out dx, InOut bias_gradient,
                              const ops::ActivationArgs& args, bool accumulate);
void dropout(In x, Out y, const ops::DropoutArgs& args);
void add(In a, In b, Out y);
void subtract(In a, In b, Out y);
void multiply(In a, In b, Out y);
void divide(In a, In b, Out y);
void affine(In x, Out y, double scale, double shift);
void accumulate(In x, InOut y);
void matmul(In a, In b, InOut c, const ops::MatmulArgs& args);
void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args);
void sgd_update(InOut p, In g, InOut momentum, const math::SgdConstants<double>& args);
void adam_update(InOut p, In g, InOut m, InOut v, const math::AdamConstants<double>& args);

}  // namespace sinter::cuda
