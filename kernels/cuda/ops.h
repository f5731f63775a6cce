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
void cast(In x, Out y);
void add(In a, In b, Out y);
void subtract(In a, In b, Out y);
void multiply(In a, In b, Out y);
void divide(In a, In b, Out y);
void affine(In x, Out y, double scale, double shift);
void accumulate(In x, InOut y);
void matmul(In a, In b, InOut c, const ops::MatmulArgs& args);
void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args);
void linear_backward_input(In dy, In weight, In kept, Out dx, const ops::ActivationArgs& args);
bool backward_is_grouped(const Tensor& x, const Tensor& weight);
void weight_gradients(Ins dy, Ins x, InOuts dw, InOuts db,
                      const std::vector<ops::WeightGradientFlags>& flags);
void sum_to(In x, InOut y, bool accumulate);
/// No op of the table: y = or += the sums over groups of rows, partial [groups, elements of y].
void sum_groups(const Tensor& partial, Tensor& y, bool accumulate);
void linears_sgd_update(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                        InOuts bias_state, const ops::SgdArgs& args);
void linears_adam_update(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                         InOuts bias_state, const ops::AdamArgs& args);
void cross_entropy(In logits, In labels, In class_weights, Out loss, Out grad,
                   const ops::CrossEntropyArgs& args);
void linear_cross_entropy(In x, In weight, In bias, In labels, In class_weights, In kept, Out loss,
                          Out dlogits, Out dx, const ops::CrossEntropyArgs& loss_args,
                          const ops::ActivationArgs& args);
void nll_loss(In x, In labels, In class_weights, Out loss, Out grad,
              const ops::CrossEntropyArgs& args);
void pointwise_loss(In x, In target, In weight, Out loss, Out grad,
                    const ops::PointwiseLossArgs& args);
void softmax(In x, Out y, const ops::SoftmaxArgs& args);
void softmax_backward(In kept, In dy, Out dx, const ops::SoftmaxArgs& args);
void norm_forward(In x, In weight, In bias, Out y, Out mean, Out rstd, const ops::NormArgs& args);
void norm_backward(In x, In weight, In bias, In mean, In rstd, In dy, Out dx, InOut dw, InOut db,
                   const ops::ActivationArgs& tail, const ops::WeightGradientFlags& flags);
void glu_forward(In x, Out y, const ops::ActivationArgs& args);
void glu_backward(In x, In dy, Out dx, const ops::ActivationArgs& args);
void batch_norm_statistics(In x, Out mean, Out var, InOut running_mean, InOut running_var,
                           InOut num_batches_tracked, std::optional<double> momentum);
void batch_norm_forward(In x, In mean, In var, In weight, In bias, In residual, Out y,
                        const ops::NormArgs& args);
void batch_norm_backward_sums(In x, In mean, In var, In weight, In bias, In kept, In dy, Out dz,
                              Out sums, InOut dw, InOut db, const ops::NormArgs& args,
                              const ops::WeightGradientFlags& flags);
void batch_norm_backward(In x, In mean, In var, In weight, In dz, In sums, Out dx, double eps);
void argmax(In x, Out y);
void gather_normalise(In bytes, In indices, Out y, const ops::NormaliseArgs& args);
void gather_rows(In rows, In indices, Out y);
void embedding_forward(In weight, In indices, Out y);
void embedding_backward(In dy, In indices, InOut dw, const ops::EmbeddingArgs& args);
void stack(Ins x, Out y);
void sgd_update(InOut p, In g, InOut momentum, const ops::SgdArgs& args);
void adam_update(InOut p, In g, InOut m, InOut v, const ops::AdamArgs& args);
void rule_update(InOut p, In g, InOuts state, const ops::RuleArgs& args);
void clip_norm(InOuts tensors, In scale, Out norm, Out found, double max_norm);
void clip_value(InOuts tensors, double limit);
void scale_update(InOut scale, InOut clean, InOut skipped, In found,
                  const ops::ScaleUpdateArgs& args);

}  // namespace sinter::cuda
