// The op table. A kernel that is not named for a device is not there, and the op falls back.
#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/ops.h>

#ifdef SINTER_HAS_CUDA
#include <sinter/kernels/cuda/ops.h>
#define CUDA(name) cuda::name
#else
#define CUDA(name) nullptr
#endif

namespace sinter::ops {

const Op<In, Out, const ActivationArgs&> activation_forward{
    "activation_forward", cpu::activation_forward, CUDA(activation_forward)};
const Op<In, In, Out, const ActivationArgs&> activation_backward{
    "activation_backward", cpu::activation_backward, CUDA(activation_backward)};
const Op<In, In, Out, InOut, const ActivationArgs&, bool> activation_backward_bias{
    "activation_backward_bias", cpu::activation_backward_bias, CUDA(activation_backward_bias)};
const Op<In, Out, const DropoutArgs&> dropout{"dropout", cpu::dropout, CUDA(dropout)};
const Op<In, In, Out> add{"add", cpu::add, CUDA(add)};
const Op<In, In, Out> subtract{"subtract", cpu::subtract, CUDA(subtract)};
const Op<In, In, Out> multiply{"multiply", cpu::multiply, CUDA(multiply)};
const Op<In, In, Out> divide{"divide", cpu::divide, CUDA(divide)};
const Op<In, Out, double, double> affine{"affine", cpu::affine, CUDA(affine)};
const Op<In, InOut> accumulate{"accumulate", cpu::accumulate, CUDA(accumulate)};
const Op<In, InOut, bool> sum_to{"sum_to", cpu::sum_to};
const Op<In, In, InOut, const MatmulArgs&> matmul{"matmul", cpu::matmul, CUDA(matmul)};
const Op<In, In, In, Out, Out, const ActivationArgs&> linear_forward{
    "linear_forward", cpu::linear_forward, CUDA(linear_forward)};
const Op<In, In, In, Out, Out, const CrossEntropyArgs&> cross_entropy{"cross_entropy",
                                                                      cpu::cross_entropy};
const Op<In, In, Out, Out, Reduction> mse_loss{"mse_loss", cpu::mse_loss};
const Op<In, Out> softmax{"softmax", cpu::softmax};
const Op<In, Out> argmax{"argmax", cpu::argmax};
const Op<In, In, Out, const NormaliseArgs&> gather_normalise{"gather_normalise",
                                                             cpu::gather_normalise};
const Op<In, In, Out> gather_rows{"gather_rows", cpu::gather_rows, nullptr, nullptr,
                                  /*moves_bytes=*/true};
const Op<InOut, In, InOut, const math::SgdConstants<double>&> sgd_update{
    "sgd_update", cpu::sgd_update, CUDA(sgd_update)};
const Op<InOut, In, InOut, InOut, const math::AdamConstants<double>&> adam_update{
    "adam_update", cpu::adam_update, CUDA(adam_update)};

namespace {

template <class... Args>
OpInfo info(const Op<Args...>& op) {
  return {op.name, op.cpu != nullptr, op.cuda != nullptr};
}

}  // namespace

std::span<const OpInfo> table() {
  static const OpInfo rows[] = {info(activation_forward),
                                info(activation_backward),
                                info(activation_backward_bias),
                                info(dropout),
                                info(add),
                                info(subtract),
                                info(multiply),
                                info(divide),
                                info(affine),
                                info(accumulate),
                                info(sum_to),
                                info(matmul),
                                info(linear_forward),
                                info(cross_entropy),
                                info(mse_loss),
                                info(softmax),
                                info(argmax),
                                info(gather_normalise),
                                info(gather_rows),
                                info(sgd_update),
                                info(adam_update)};
  return rows;
}

}  // namespace sinter::ops
