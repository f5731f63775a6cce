// The op table. A kernel that is not named for a device is not there, and the op falls back.
#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/ops.h>

#ifdef SINTER_HAS_CUDA
#include <sinter/kernels/cuda/ops.h>
#define CUDA(name) cuda::name
#define ON_CUDA(condition) (condition)
#else
#define CUDA(name) nullptr
#define ON_CUDA(condition) false
#endif

namespace sinter::ops {

const Op<In, Out, const ActivationArgs&> activation_forward{
    "activation_forward", cpu::activation_forward, CUDA(activation_forward)};
const Op<In, In, Out, const ActivationArgs&> activation_backward{
    "activation_backward", cpu::activation_backward, CUDA(activation_backward)};
const Op<In, In, Out, InOut, const ActivationArgs&, bool> activation_backward_bias{
    "activation_backward_bias", cpu::activation_backward_bias, CUDA(activation_backward_bias)};
const Op<In, Out, const DropoutArgs&> dropout{"dropout", cpu::dropout, CUDA(dropout)};
const Op<In, Out> cast{"cast", cpu::cast, CUDA(cast)};
const Op<In, In, Out> add{"add", cpu::add, CUDA(add)};
const Op<In, In, Out> subtract{"subtract", cpu::subtract, CUDA(subtract)};
const Op<In, In, Out> multiply{"multiply", cpu::multiply, CUDA(multiply)};
const Op<In, In, Out> divide{"divide", cpu::divide, CUDA(divide)};
const Op<In, Out, double, double> affine{"affine", cpu::affine, CUDA(affine)};
const Op<In, InOut> accumulate{"accumulate", cpu::accumulate, CUDA(accumulate)};
const Op<In, InOut, bool> sum_to{"sum_to", cpu::sum_to, CUDA(sum_to)};
const Op<In, In, InOut, const MatmulArgs&> matmul{"matmul", cpu::matmul, CUDA(matmul)};
const Op<In, In, In, Out, Out, const ActivationArgs&> linear_forward{
    "linear_forward", cpu::linear_forward, CUDA(linear_forward)};
const Op<In, In, In, Out, const ActivationArgs&> linear_backward_input{
    "linear_backward_input", cpu::linear_backward_input, CUDA(linear_backward_input)};
const Op<Ins, Ins, InOuts, InOuts, const std::vector<WeightGradientFlags>&> weight_gradients{
    "weight_gradients", cpu::weight_gradients, CUDA(weight_gradients)};
const Op<Ins, Ins, InOuts, InOuts, InOuts, InOuts, const SgdArgs&> linears_sgd_update{
    "linears_sgd_update", cpu::linears_sgd_update, CUDA(linears_sgd_update)};
const Op<Ins, Ins, InOuts, InOuts, InOuts, InOuts, const AdamArgs&> linears_adam_update{
    "linears_adam_update", cpu::linears_adam_update, CUDA(linears_adam_update)};
const Op<In, In, In, Out, Out, const CrossEntropyArgs&> cross_entropy{
    "cross_entropy", cpu::cross_entropy, CUDA(cross_entropy)};
const Op<In, In, In, In, In, In, Out, Out, Out, const CrossEntropyArgs&, const ActivationArgs&>
    linear_cross_entropy{"linear_cross_entropy", cpu::linear_cross_entropy,
                         CUDA(linear_cross_entropy)};
const Op<In, In, In, Out, Out, const CrossEntropyArgs&> nll_loss{"nll_loss", cpu::nll_loss,
                                                                 CUDA(nll_loss)};
const Op<In, In, In, Out, Out, const PointwiseLossArgs&> pointwise_loss{
    "pointwise_loss", cpu::pointwise_loss, CUDA(pointwise_loss)};
const Op<In, Out, const SoftmaxArgs&> softmax{"softmax", cpu::softmax, CUDA(softmax)};
const Op<In, In, Out, const SoftmaxArgs&> softmax_backward{
    "softmax_backward", cpu::softmax_backward, CUDA(softmax_backward)};
const Op<In, In, In, Out, Out, Out, const NormArgs&> norm_forward{"norm_forward", cpu::norm_forward,
                                                                  CUDA(norm_forward)};
const Op<In, In, In, In, In, In, Out, InOut, InOut, const ActivationArgs&,
         const WeightGradientFlags&>
    norm_backward{"norm_backward", cpu::norm_backward, CUDA(norm_backward)};
const Op<In, Out, const ActivationArgs&> glu_forward{"glu_forward", cpu::glu_forward,
                                                     CUDA(glu_forward)};
const Op<In, In, Out, const ActivationArgs&> glu_backward{"glu_backward", cpu::glu_backward,
                                                          CUDA(glu_backward)};
const Op<In, Out, Out, InOut, InOut, InOut, std::optional<double>> batch_norm_statistics{
    "batch_norm_statistics", cpu::batch_norm_statistics, CUDA(batch_norm_statistics)};
const Op<In, In, In, In, In, In, Out, const NormArgs&> batch_norm_forward{
    "batch_norm_forward", cpu::batch_norm_forward, CUDA(batch_norm_forward)};
const Op<In, In, In, In, In, In, In, Out, Out, InOut, InOut, const NormArgs&,
         const WeightGradientFlags&>
    batch_norm_backward_sums{"batch_norm_backward_sums", cpu::batch_norm_backward_sums,
                             CUDA(batch_norm_backward_sums)};
const Op<In, In, In, In, In, In, Out, double> batch_norm_backward{
    "batch_norm_backward", cpu::batch_norm_backward, CUDA(batch_norm_backward)};
const Op<In, Out, const AttentionArgs&> attention_forward{"attention_forward",
                                                          cpu::attention_forward};
const Op<In, In, Out, const AttentionArgs&> attention_backward{"attention_backward",
                                                               cpu::attention_backward};
const Op<In, In, In, Out, const Conv2dArgs&> conv2d_forward{"conv2d_forward", cpu::conv2d_forward};
const Op<In, In, Out, const Conv2dArgs&> conv2d_backward_input{"conv2d_backward_input",
                                                               cpu::conv2d_backward_input};
const Op<In, In, InOut, const Conv2dArgs&, bool> conv2d_backward_weight{
    "conv2d_backward_weight", cpu::conv2d_backward_weight};
const Op<In, Out, const Pool2dArgs&> avg_pool2d_forward{"avg_pool2d_forward",
                                                        cpu::avg_pool2d_forward};
const Op<In, Out, const Pool2dArgs&> avg_pool2d_backward{"avg_pool2d_backward",
                                                         cpu::avg_pool2d_backward};
const Op<In, Out, const Pool2dArgs&> max_pool2d_forward{"max_pool2d_forward",
                                                        cpu::max_pool2d_forward};
const Op<In, In, Out, const Pool2dArgs&> max_pool2d_backward{"max_pool2d_backward",
                                                             cpu::max_pool2d_backward};
const Op<In, Out> argmax{"argmax", cpu::argmax, CUDA(argmax)};
const Op<In, In, Out, const NormaliseArgs&> gather_normalise{
    "gather_normalise", cpu::gather_normalise, CUDA(gather_normalise)};
const Op<In, In, Out> gather_rows{"gather_rows", cpu::gather_rows, CUDA(gather_rows), nullptr,
                                  /*moves_bytes=*/true};
const Op<In, In, Out> embedding_forward{"embedding_forward", cpu::embedding_forward,
                                        CUDA(embedding_forward), nullptr, /*moves_bytes=*/true};
const Op<In, In, InOut, const EmbeddingArgs&> embedding_backward{
    "embedding_backward", cpu::embedding_backward, CUDA(embedding_backward)};
const Op<Ins, Out> stack{"stack", cpu::stack, CUDA(stack), nullptr, /*moves_bytes=*/true};
const Op<InOut, In, InOut, const SgdArgs&> sgd_update{"sgd_update", cpu::sgd_update,
                                                      CUDA(sgd_update)};
const Op<InOut, In, InOut, InOut, const AdamArgs&> adam_update{"adam_update", cpu::adam_update,
                                                               CUDA(adam_update)};
const Op<InOut, In, InOuts, const RuleArgs&> rule_update{"rule_update", cpu::rule_update,
                                                         CUDA(rule_update)};
const Op<InOuts, In, Out, Out, double> clip_norm{"clip_norm", cpu::clip_norm, CUDA(clip_norm)};
const Op<InOuts, double> clip_value{"clip_value", cpu::clip_value, CUDA(clip_value)};
const Op<InOut, InOut, InOut, In, const ScaleUpdateArgs&> scale_update{
    "scale_update", cpu::scale_update, CUDA(scale_update)};

bool backward_is_grouped([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& w) {
  return ON_CUDA(x.device().type == DeviceType::cuda && cuda::backward_is_grouped(x, w));
}

namespace {

template <class Arg, class... Others>
constexpr int is_one_of = (std::is_same_v<Arg, Others> || ...) ? 1 : 0;

template <class... Args>
OpInfo info(const Op<Args...>& op) {
  return {op.name,
          op.cpu != nullptr,
          op.cuda != nullptr,
          {(is_one_of<Args, In, InOut> + ...), (is_one_of<Args, Ins, InOuts> + ...)},
          {(is_one_of<Args, Out, InOut> + ...), (is_one_of<Args, InOuts> + ...)}};
}

OpInfo product(OpInfo info) {
  info.is_product = true;
  return info;
}

}  // namespace

std::span<const OpInfo> table() {
  static const OpInfo rows[] = {info(activation_forward),
                                info(activation_backward),
                                info(activation_backward_bias),
                                info(dropout),
                                info(cast),
                                info(add),
                                info(subtract),
                                info(multiply),
                                info(divide),
                                info(affine),
                                info(accumulate),
                                info(sum_to),
                                product(info(matmul)),
                                product(info(linear_forward)),
                                product(info(linear_backward_input)),
                                product(info(weight_gradients)),
                                product(info(linears_sgd_update)),
                                product(info(linears_adam_update)),
                                info(cross_entropy),
                                product(info(linear_cross_entropy)),
                                info(nll_loss),
                                info(pointwise_loss),
                                info(softmax),
                                info(softmax_backward),
                                info(norm_forward),
                                info(norm_backward),
                                info(glu_forward),
                                info(glu_backward),
                                info(batch_norm_statistics),
                                info(batch_norm_forward),
                                info(batch_norm_backward_sums),
                                info(batch_norm_backward),
                                info(attention_forward),
                                info(attention_backward),
                                info(conv2d_forward),
                                info(conv2d_backward_input),
                                info(conv2d_backward_weight),
                                info(avg_pool2d_forward),
                                info(avg_pool2d_backward),
                                info(max_pool2d_forward),
                                info(max_pool2d_backward),
                                info(argmax),
                                info(gather_normalise),
                                info(gather_rows),
                                info(embedding_forward),
                                info(embedding_backward),
                                info(stack),
                                info(sgd_update),
                                info(adam_update),
                                info(rule_update),
                                info(clip_norm),
                                info(clip_value),
                                info(scale_update)};
  return rows;
}

}  // namespace sinter::ops
