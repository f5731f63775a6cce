// The table of ops: what can be computed, with what arguments. How, on which device, is one
// function behind each (kernels/cpu); ops.cpp pairs them up. An op knows neither
// gradients nor layers. Shapes and types are checked by the callers in autograd.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sinter/kernels/dispatch.h>
#include <sinter/kernels/math/activations.h>
#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/math/losses.h>
#include <sinter/kernels/math/optimizers.h>
#include <sinter/kernels/math/update_rules.h>
#include <sinter/kernels/windows.h>

namespace sinter::ops {

/// A dropout mask laid over a tensor: element i of the tensor takes keep(first + i).
struct DropoutArgs {
  math::DropoutMask mask;
  std::uint64_t first = 0;
  /// In a captured graph: int32 [1] on the device, the step to draw with instead of the mask's own.
  Tensor live_step = {};
};

/// What follows a matrix product or stands alone as one pass: activation, then dropout.
struct ActivationArgs {
  std::optional<math::AnyActivation> act;  ///< none: the identity
  DropoutArgs dropout;
  /// The type in which the tensor kept for backward is stored: bounds are compared as they come
  /// out of it.
  DType stored = DType::float32;
};

enum class Reduction : std::uint8_t { mean, sum, none };

struct CrossEntropyArgs {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0.0;
  std::int64_t ignore_index = -100;
};

/// uint8 rows to floating rows: y = (x / 255 - mean) / std.
struct NormaliseArgs {
  double mean = 0.0;
  double std = 1.0;
};

/// For an update that the device may have to leave out, in a captured graph. Undefined for others.
struct SkipArgs {
  Tensor found;    ///< int32 []: if it is not 0, nothing is updated
  Tensor skipped;  ///< int64 []: updates left out so far,
  Tensor known;    ///< int64 []: of which the host knew so many when it wrote the live constants
};
/// The constants of an update. In a captured graph they change from replay to replay: `live`, where
/// defined, is uint8 on the device and holds them as math::narrowed() gives them. With `skip` there
/// are several: for none left out that the host does not know of, for one, and so on.
template <class Constants>
struct UpdateArgs {
  UpdateArgs(const Constants& of_step, Tensor live_constants = {}, SkipArgs skip_args = {})
      : constants(of_step), live(std::move(live_constants)), skip(std::move(skip_args)) {}

  Constants constants;
  Tensor live;
  SkipArgs skip;
};
using SgdArgs = UpdateArgs<math::SgdConstants<double>>;
using AdamArgs = UpdateArgs<math::AdamConstants<double>>;
/// The same for any rule of kernels/math/update_rules.h.
struct RuleArgs {
  math::AnyRule rule;
  Tensor live = {};
  SkipArgs skip = {};
};

// Element-wise. ------------------------------------------------------------------------------

/// y = dropout(act(x)), one pass.
extern const Op<In, Out, const ActivationArgs&> activation_forward;
/// dx = dy * d(dropout(act(x)))/dx. `kept` is x or y of the forward pass, as the activation's
/// derivative needs (math::needs_input); the mask is drawn again, never stored.
extern const Op<In, In, Out, const ActivationArgs&> activation_backward;
/// The same for y = dropout(act(x w^T + bias)), and the bias's gradient in the same pass: the sum
/// of dx, rounded to its type or not yet, over all dimensions but the last, in a fixed order. That
/// gradient may be float32 for 16-bit dx. The flag: add to the gradient.
extern const Op<In, In, Out, InOut, const ActivationArgs&, bool> activation_backward_bias;
/// y = x where kept, scaled, else 0. Its own backward.
extern const Op<In, Out, const DropoutArgs&> dropout;
/// y = x in y's floating type, rounded to nearest; float64 to 16 bits by way of float32.
extern const Op<In, Out> cast;
/// y = a op b, broadcast as NumPy does; y has the broadcast shape.
extern const Op<In, In, Out> add;
extern const Op<In, In, Out> subtract;
extern const Op<In, In, Out> multiply;
extern const Op<In, In, Out> divide;
/// y = scale * x + shift
extern const Op<In, Out, double, double> affine;
/// y += x, same shape.
extern const Op<In, InOut> accumulate;

// Sums, in a fixed order. ---------------------------------------------------------------------

/// Adds up the dimensions along which y has size 1 or is missing: the gradient of a broadcast.
/// y may be float32 for 16-bit x. The flag: add to y instead of overwriting it.
extern const Op<In, InOut, bool> sum_to;

// Matrices. -----------------------------------------------------------------------------------

struct MatmulArgs {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< c += a b instead of c = a b
};
/// c = a b, two-dimensional. c may be of another type than 16-bit a and b, but not float64.
extern const Op<In, In, InOut, const MatmulArgs&> matmul;
/// y = dropout(act(x w^T + bias)); x [rows, in], w [out, in], bias [out] or absent, y [rows, out].
/// Activation and dropout are at most one pass after the product and the bias, on the CPU over each
/// block of them. `z`, where given, receives x w^T + bias for a derivative that needs it. bias, z
/// and y have one type, which may be float32 for 16-bit x and w.
extern const Op<In, In, In, Out, Out, const ActivationArgs&> linear_forward;

/// dx = dy w, the gradient of a Linear's input; dy [rows, out], w [out, in], dx [rows, in]. Where
/// `kept` is given, x came out of a pass x = dropout(act(z)), and dx receives the gradient of z:
/// dx = (dy w) * d(dropout(act(z)))/dz, with `kept` as in activation_backward.
extern const Op<In, In, In, Out, const ActivationArgs&> linear_backward_input;

/// Whether a gradient is added to what is there.
struct WeightGradientFlags {
  bool accumulate_weight = false;
  bool accumulate_bias = false;
};
/// The gradients of the parameters of any number of Linears: dw[i] = dy[i]^T x[i] and db[i] = the
/// sum of dy[i] over its rows, in a fixed order; dw[i] and db[i] may be absent.
extern const Op<Ins, Ins, InOuts, InOuts, const std::vector<WeightGradientFlags>&> weight_gradients;
/// An optimizer's step for the parameters of any number of Linears by the gradients that
/// weight_gradients would give, with the result of sgd_update and adam_update; a gradient need not
/// be stored for it. In order: dy, x, weights, biases (some absent), then the state of the weights
/// and of the biases: none or a momentum for each, or mean and square for each in turn.
extern const Op<Ins, Ins, InOuts, InOuts, InOuts, InOuts, const SgdArgs&> linears_sgd_update;
extern const Op<Ins, Ins, InOuts, InOuts, InOuts, InOuts, const AdamArgs&> linears_adam_update;
/// Whether Linears as small as this one, rows of x [rows, in] times w [out, in], gain by having
/// their weights' gradients computed together, and their input's gradient with the pass below.
bool backward_is_grouped(const Tensor& x, const Tensor& w);

// Losses. -------------------------------------------------------------------------------------

/// logits [rows, classes], labels [rows] (int64, int32 or uint8), class weights [classes] or
/// absent. loss: a scalar, or [rows] for Reduction::none. `grad`, where given, receives
/// d(loss)/d(logits) in the same pass (for none: each row's own). Throws Error naming row and
/// value of a label outside [0, classes) that is not ignore_index.
extern const Op<In, In, In, Out, Out, const CrossEntropyArgs&> cross_entropy;
/// The last Linear and cross_entropy in one: of logits = x w^T + bias, `loss` and `dlogits` are
/// what cross_entropy gives as loss and grad. Where dx is given it receives
/// linear_backward_input(dlogits, w, kept). In order: x, w, bias, labels, class weights, kept,
/// loss, dlogits, dx.
extern const Op<In, In, In, In, In, In, Out, Out, Out, const CrossEntropyArgs&,
                const ActivationArgs&>
    linear_cross_entropy;
/// Of log-probabilities [rows, classes] the negative one at each label; else like cross_entropy.
extern const Op<In, In, In, Out, Out, const CrossEntropyArgs&> nll_loss;

/// Which loss of kernels/math/losses.h, and what becomes of the terms.
struct PointwiseLossArgs {
  /// For `n` elements.
  PointwiseLossArgs(const math::AnyLoss& loss, Reduction reduction, std::int64_t n)
      : of_element(loss),
        each(reduction == Reduction::none),
        scale(reduction == Reduction::mean && n > 0 ? 1.0 / static_cast<double>(n) : 1.0) {}

  math::AnyLoss of_element;
  bool each;     ///< the terms are the result, else their sum
  double scale;  ///< of the result
};
/// The loss of x and a target of its shape, and its gradient by x as above; weights [columns] of
/// the last dimension, or absent, for a loss that takes them. loss: a scalar, or of the shape of x.
extern const Op<In, In, In, Out, Out, const PointwiseLossArgs&> pointwise_loss;

// Rows: the last dimension of a tensor.
// ------------------------------------------------------------

struct SoftmaxArgs {
  bool log = false;      ///< its logarithm
  bool negated = false;  ///< of -x: softmin
  /// Behind it, in the same pass; not behind a logarithm.
  DropoutArgs dropout = {};

  bool drops() const { return !dropout.mask.is_identity(); }
};
/// y = dropout(softmax(x)).
extern const Op<In, Out, const SoftmaxArgs&> softmax;
/// dx of dy and y; or, with dropout, which y does not come back from, of dy and x, from which the
/// softmax is computed again.
extern const Op<In, In, Out, const SoftmaxArgs&> softmax_backward;

/// A norm, and what stands behind it in the same pass.
struct NormArgs {
  double eps = 1e-5;
  ActivationArgs tail = {};
};
/// y = dropout(act(z)) for z = n * weight + bias, n = (x - mean) rstd and rstd = 1 / sqrt(mean of
/// (x - mean)^2 + eps) of each row; where no `mean` [rows] is given, without taking it. weight and
/// bias [columns] may be absent. mean and rstd [rows] are float32, or float64 for float64 x. In
/// order: x, weight, bias, y, mean, rstd.
extern const Op<In, In, In, Out, Out, Out, const NormArgs&> norm_forward;
/// With dz = dy * d(dropout(act(z)))/dz, of a z that is computed again, and g = weight * dz: dx =
/// rstd (g - mean of g - n mean of g n), where the mean of g counts only if one was taken from x;
/// and, set or added to, the sums over rows of n dz for weight and of dz for bias. Each may be
/// absent. In order: x, weight, bias (read for an activation only), mean (absent where none was
/// taken), rstd, dy, dx, dw, db, tail.
extern const Op<In, In, In, In, In, In, Out, InOut, InOut, const ActivationArgs&,
                const WeightGradientFlags&>
    norm_backward;

/// y = dropout(a * act(b)) for the two halves a and b of each row of x.
extern const Op<In, Out, const ActivationArgs&> glu_forward;
/// dx of x and dy.
extern const Op<In, In, Out, const ActivationArgs&> glu_backward;

// Channels: dimension 1 of a tensor [N, C, ...]. --------------------------------------------------

/// mean and var [C], the biased variance, of each channel of x, which has at least two values for
/// each; and, where they are given, the running statistics of a batch norm: num_batches_tracked
/// (int64, a scalar) counts one more, running_mean += f (mean - running_mean) and running_var
/// likewise by the unbiased variance, where f is `momentum`, or 1 / num_batches_tracked where there
/// is none. All but the count are float32, or float64 for float64 x. In order: x, mean, var,
/// running_mean, running_var, num_batches_tracked, momentum.
extern const Op<In, Out, Out, InOut, InOut, InOut, std::optional<double>> batch_norm_statistics;

/// y = dropout(act(z)) for z = n * weight + bias + residual and n = (x - mean) / sqrt(var + eps).
/// weight and bias [C] and residual, of the shape of x, may be absent. In order: x, mean, var,
/// weight, bias, residual, y.
extern const Op<In, In, In, In, In, In, Out, const NormArgs&> batch_norm_forward;
/// dz = dy * d(dropout(act(z)))/dz, which may overwrite dy and is absent where there is neither
/// activation nor dropout; `sums` [2, C], of the type of mean: those of dz and of n dz over each
/// channel; and, set or added to, the same rounded: the gradients of bias and weight, or absent.
/// `kept` is y, or for an activation whose derivative is that at its input the residual. In order:
/// x, mean, var, weight, bias, kept, dy, dz, sums, dw, db.
extern const Op<In, In, In, In, In, In, In, Out, Out, InOut, InOut, const NormArgs&,
                const WeightGradientFlags&>
    batch_norm_backward_sums;
/// dx = weight / sqrt(var + eps) * (dz - (mean of dz) - n (mean of n dz)), by the sums; where those
/// are absent, mean and var did not come from x, and those two terms are not there. In order: x,
/// mean, var, weight, dz, sums, dx, eps.
extern const Op<In, In, In, In, In, In, Out, double> batch_norm_backward;

// Attention. ---------------------------------------------------------------------------------

struct AttentionArgs {
  std::int64_t num_heads = 1;
  bool causal = false;  ///< query i sees keys 0 to i only
  DropoutArgs dropout = {};
};
/// y [n, length, e] of qkv [n, length, 3 e], where a row is a query, a key and a value of e =
/// num_heads * d elements. For each head, y = dropout(softmax(q k^T / sqrt(d))) v; the mask lies
/// over the weights as a tensor [n, num_heads, length, length].
extern const Op<In, Out, const AttentionArgs&> attention_forward;
/// The gradient of qkv, of qkv and dy. The weights are computed again, never stored.
extern const Op<In, In, Out, const AttentionArgs&> attention_backward;

// Images [n, channels, height, width]. ------------------------------------------------------------

/// y = x convolved with weight [out_channels, in_channels / groups, kernel height, kernel width],
/// plus bias [out_channels] or absent.
extern const Op<In, In, In, Out, const Conv2dArgs&> conv2d_forward;
/// dx of dy and weight. The bias's gradient is a sum_to.
extern const Op<In, In, Out, const Conv2dArgs&> conv2d_backward_input;
/// dw of x and dy. The flag: add to dw instead of overwriting it.
extern const Op<In, In, InOut, const Conv2dArgs&, bool> conv2d_backward_weight;
/// The mean under each window.
extern const Op<In, Out, const Pool2dArgs&> avg_pool2d_forward;
/// dx of dy.
extern const Op<In, Out, const Pool2dArgs&> avg_pool2d_backward;
/// The largest element under each window, the first of equals; a NaN counts as largest. Padding is
/// never it: a window without any element is -infinity.
extern const Op<In, Out, const Pool2dArgs&> max_pool2d_forward;
/// dx of x and dy. It looks for the largest elements again: their places would be eight bytes each
/// to keep and to copy, and x is mostly kept anyway, as the output of an activation.
extern const Op<In, In, Out, const Pool2dArgs&> max_pool2d_backward;

// Inference and data. ---------------------------------------------------------------------------

/// Index (int64) of the largest of the last dimension, the first of equals; NaN counts as largest.
extern const Op<In, Out> argmax;
/// Row indices[i] of the uint8 matrix `bytes` becomes row i of y, normalised.
extern const Op<In, In, Out, const NormaliseArgs&> gather_normalise;
/// y[i] = the only element of x[i].
extern const Op<Ins, Out> stack;
/// Row indices[i] of `rows` (any type) becomes row i of y. Indices of this op and the next one are
/// int64, int32 or uint8. Throws Error naming position and value of one that is no row.
extern const Op<In, In, Out> gather_rows;
/// The same, in another name.
extern const Op<In, In, Out> embedding_forward;

struct EmbeddingArgs {
  std::int64_t padding_idx = -1;  ///< the row that gets no gradient, or -1
  bool accumulate = false;        ///< add to dw instead of overwriting it
};
/// dw[r] = the sum of dy[i] over all i with indices[i] = r, in the order of i and in float64, so
/// that every device has the same bits. In order: dy, indices, dw.
extern const Op<In, In, InOut, const EmbeddingArgs&> embedding_backward;

// Optimizers, over flat buffers: one element for each parameter. --------------------------------

/// Parameters, gradients and momentum, or absent.
extern const Op<InOut, In, InOut, const SgdArgs&> sgd_update;
/// Parameters, gradients, mean and square.
extern const Op<InOut, In, InOut, InOut, const AdamArgs&> adam_update;
/// Parameters, gradients, and as many tensors of state as the rule has.
extern const Op<InOut, In, InOuts, const RuleArgs&> rule_update;
/// Every element of the tensors divided by `scale` (a float32 scalar), where it is given; then the
/// root of the sum of all their squares, `norm`, a scalar in float32 or float64; and every element
/// but zeros times max_norm / (norm + 1e-6) where that is not above 1. `found` (an int32 scalar),
/// where given, becomes 1 where the norm is not finite, else 0. In order: tensors, scale, norm,
/// found, max_norm.
extern const Op<InOuts, In, Out, Out, double> clip_norm;
/// Every element of the tensors held within [-limit, limit]; NaN stays.
extern const Op<InOuts, double> clip_value;

struct ScaleUpdateArgs {
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
};
/// A loss scale (a float32 scalar) after a step in which gradients overflowed, where `found` (an
/// int32 scalar) is not 0: times backoff_factor; else, after growth_interval steps without, times
/// growth_factor where that is finite. `clean`, steps since it last changed, and `skipped`, those
/// that overflowed, are int64 scalars. In order: scale, clean, skipped, found.
extern const Op<InOut, InOut, InOut, In, const ScaleUpdateArgs&> scale_update;

// The table itself. ------------------------------------------------------------------------------

/// Tensors of a call, and lists of them.
struct TensorCount {
  int single = 0;
  int lists = 0;
};
/// One row: the op, the devices that have a kernel for it, and what a fallback copies.
struct OpInfo {
  const char* name;
  bool cpu;
  bool cuda;
  TensorCount to_cpu;
  TensorCount back;
  /// It multiplies matrices: which CUDA kernel does, and so in what order it adds up, follows from
  /// the model of the GPU and the version of CUDA too, not from sizes and types alone.
  bool is_product = false;
};
/// All of the above, in order.
std::span<const OpInfo> table();

}  // namespace sinter::ops
