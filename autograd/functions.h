// The differentiable functions: what torch.nn.functional is to PyTorch. Each checks its arguments,
// computes through one op, and records how to go backward where a tape wants to know.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <sinter/autograd/tape.h>
#include <sinter/kernels/math/activations.h>
#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/ops.h>
#include <sinter/kernels/windows.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

using Reduction = ops::Reduction;

/// Dropout behind a function: none unless p > 0. `generator` names the masks; it is needed where
/// p > 0, and one is enough for a whole model.
struct DropoutOptions {
  double p = 0.0;
  std::shared_ptr<Generator> generator = nullptr;
  math::MaskScheme scheme = math::MaskScheme::lanes;
};

// Activations and dropout. ----------------------------------------------------------------------

/// dropout(act(x)) in one pass, forward and backward; the mask is recomputed, never stored.
/// Elements of any floating type; the result has the shape and type of x. Throws Error for a p
/// outside [0, 1], a missing generator, and parameters of the activation outside their range.
Tensor activation(const Tensor& x, const math::AnyActivation& act,
                  const DropoutOptions& dropout = {});

// relu(x), gelu(x), leaky_relu(x, {.negative_slope = 0.1}) and so on, for the whole list.
#define SINTER_FUNCTION(Type, function)                               \
  inline Tensor function(const Tensor& x, const math::Type& act = {}, \
                         const DropoutOptions& dropout = {}) {        \
    return activation(x, act, dropout);                               \
  }
SINTER_ACTIVATIONS(SINTER_FUNCTION)
#undef SINTER_FUNCTION

/// Inverted dropout: element i is 0 or x[i] times the scale. p = 0 is the identity and draws
/// nothing.
Tensor dropout(const Tensor& x, const DropoutOptions& options);

/// Throws Error, in `who`'s name, unless 0 <= p <= 1.
void check_probability(const char* who, double p);
/// Throws Error, in `who`'s name, where a parameter is outside its range.
void check_activation(const char* who, const math::AnyActivation& act);
/// Throws Error, in `who`'s name, unless num_heads divides embed_dim and both are at least 1.
void check_heads(const char* who, std::int64_t embed_dim, std::int64_t num_heads);
/// Throws Error, in `who`'s name, unless `padding_idx` is in [0, num_embeddings), where given.
void check_padding(const char* who, std::optional<std::int64_t> padding_idx,
                   std::int64_t num_embeddings);
/// Throws Error, in `who`'s name, for a shape without elements, and eps negative or not finite.
void check_norm_options(const char* who, const Shape& normalized_shape, double eps);
/// Throws Error, in `who`'s name, unless eps is above 0 and finite and momentum lies in [0, 1].
void check_batch_norm_options(const char* who, double eps, std::optional<double> momentum);

/// x in another floating type, as torch's x.to(dtype): differentiable, where Tensor::to is not.
Tensor cast(const Tensor& x, DType dtype);

// Matrices. -------------------------------------------------------------------------------------

/// a b for two matrices [m, k] and [k, n], or their transposes.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
/// x w^T + bias: x [..., in], weight [out, in], bias [out] or undefined; the result is [..., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// dropout(act(linear(x))) as one product and one pass over its result.
Tensor linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const math::AnyActivation& act, const DropoutOptions& dropout = {});

// Arithmetic, broadcast as NumPy and PyTorch do. --------------------------------------------------

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator-(const Tensor& a);
/// In place: the elements change for every handle, and backward refuses to use what was kept of
/// them before. The result must have y's shape. A leaf cannot be changed while a tape records.
Tensor& operator+=(Tensor& y, const Tensor& x);
Tensor& operator-=(Tensor& y, const Tensor& x);
Tensor& operator+=(Tensor& y, double x);
Tensor& operator*=(Tensor& y, double x);

/// The sum of all elements, a scalar; in a fixed order.
Tensor sum(const Tensor& x);
/// The mean of all elements, a scalar. Throws Error for none.
Tensor mean(const Tensor& x);
/// Rows [begin, end) of the first dimension, sharing x's elements.
Tensor rows(const Tensor& x, std::int64_t begin, std::int64_t end);
/// Dimensions from `start_dim` on become one, as torch.flatten does.
Tensor flatten(const Tensor& x, int start_dim = 1);

// Over rows: the last dimension, or the last ones. ------------------------------------------------

/// e^x divided by its sum over the last dimension, without overflow; `dim` may only name that one.
/// To train a classifier take cross_entropy of logits, which is exact where this has rounded to 0.
/// Dropout behind it is done in the same pass; backward then computes the softmax again from x.
/// Throws Error for a p outside [0, 1] and a missing generator.
Tensor softmax(const Tensor& x, int dim = -1, const DropoutOptions& dropout = {});
/// log(softmax(x)), exact where softmax would round to 0 or 1.
Tensor log_softmax(const Tensor& x, int dim = -1);
/// softmax(-x)
Tensor softmin(const Tensor& x, int dim = -1);

/// What layer_norm and rms_norm do behind the norm, in the same pass: dropout(act(norm(x))).
/// Backward goes through it as it reads x and the gradient, and keeps nothing more for it.
struct NormTail {
  std::optional<math::AnyActivation> act = std::nullopt;
  DropoutOptions dropout = {};
};
/// (x - mean) / sqrt(variance + eps) * weight + bias, with mean and (biased) variance over the last
/// dimensions, which are `normalized_shape` (Ba, Kiros and Hinton, "Layer normalization", 2016).
/// weight and bias have that shape or are undefined. Statistics of 16-bit elements are float32; on
/// a GPU those of float32 are too, where squares overflow from 1e19 on.
/// Throws Error for another shape of x, for eps that is negative or not finite, and as activation()
/// does for what stands behind.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5, const NormTail& tail = {});
/// x / sqrt(mean of x^2 + eps) * weight, the same way (Zhang and Sennrich, "Root mean square layer
/// normalization", 2019). Without `eps` it is the spacing at 1 of float32, or of float64 for it.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = std::nullopt, const NormTail& tail = {});

/// The running statistics of a batch norm: mean and var [C], float32, or float64 beside float64 x,
/// and num_batches_tracked (int64, a scalar); all of them or none.
struct RunningStatistics {
  Tensor mean = {};
  Tensor var = {};
  Tensor num_batches_tracked = {};
};
/// What a batch norm does behind the norm, in the same pass.
struct BatchNormTail {
  Tensor residual = {};  ///< of the shape and type of x, added before the activation; or undefined
  std::optional<math::AnyActivation> act = std::nullopt;
  DropoutOptions dropout = {};
};
/// dropout(act((x - mean) / sqrt(var + eps) * weight + bias + residual)) for x [N, C, ...], with
/// mean and (biased) variance of each channel (Ioffe and Szegedy, "Batch normalization", 2015):
/// those of x in training, which the running statistics then take in, else the running ones.
/// running = (1 - momentum) running + momentum (that of x, the variance unbiased); without a
/// momentum they become the averages over all batches. weight and bias [C] or undefined. Statistics
/// of 16-bit elements are float32. Throws Error in training with less than two values for each
/// channel, else without running statistics; for eps not above 0 and momentum outside [0, 1].
Tensor batch_norm(const Tensor& x, const RunningStatistics& running, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = false,
                  std::optional<double> momentum = 0.1, double eps = 1e-5,
                  const BatchNormTail& tail = {});

/// a * gate(b) for the two halves a and b of the last dimension, then dropout, in one pass (Dauphin
/// et al., "Language modeling with gated convolutional networks", 2017; other gates: Shazeer, "GLU
/// variants improve transformer", 2020). Throws Error for an odd last dimension.
Tensor glu(const Tensor& x, const math::AnyActivation& gate = math::Sigmoid{},
           const DropoutOptions& dropout = {});

// Sequences. --------------------------------------------------------------------------------------

/// Scaled dot-product attention of a sequence to itself (Vaswani et al., "Attention is all you
/// need", 2017): for each head, dropout(softmax(q k^T / sqrt(d))) v with d = embed_dim / num_heads.
/// qkv [batch, length, 3 * embed_dim] holds the queries, keys and values side by side, as one
/// linear() gives them; the result is [batch, length, embed_dim], heads side by side. Causal:
/// position i attends to positions 0 to i only. Weights are computed again for backward, never
/// stored. There is a CPU kernel only: elsewhere it runs there, with copies (docs/ops.md).
/// Throws Error for another rank, a last dimension that is not three times a positive multiple of
/// num_heads, and as every function with dropout does.
Tensor self_attention(const Tensor& qkv, std::int64_t num_heads, bool causal = false,
                      const DropoutOptions& dropout = {});

/// Row indices[i] of weight [num_embeddings, embedding_dim] for each of the indices (int64, int32
/// or uint8, at most 5 dimensions): [..., embedding_dim]. The weight's gradient adds up rows in the
/// order of the indices; row `padding_idx` gets none. Throws Error naming position and value of an
/// index outside [0, num_embeddings).
Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx = std::nullopt);

// Images [N, C, H, W] and sequences [N, C, L]. ----------------------------------------------------

/// Cross-correlation with weight [out_channels, C / groups, kernel height, kernel width], plus bias
/// [out_channels] or undefined; the result is [N, out_channels, H', W'] with
/// H' = floor((H + 2 padding - dilation (kernel height - 1) - 1) / stride) + 1. Padding is zeros.
/// With groups, each group of output channels sees its share of the input's. Throws Error for
/// shapes that do not fit, a kernel that covers more than the padded input, a stride, dilation or
/// groups below 1, and a negative padding.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Size2d stride = 1,
              Size2d padding = 0, Size2d dilation = 1, std::int64_t groups = 1);
/// The same for x [N, C, L] and weight [out_channels, C / groups, kernel size].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t dilation = 1,
              std::int64_t groups = 1);

struct AvgPool2dOptions {
  Size2d stride = same_as_kernel;
  Size2d padding = 0;             ///< zeros; at most half of the kernel
  bool ceil_mode = false;         ///< a last window may reach beyond the padding
  bool count_include_pad = true;  ///< zeros of the padding count in the mean
};
/// The mean under each window of kernel_size. Throws Error as conv2d does.
Tensor avg_pool2d(const Tensor& x, Size2d kernel_size, const AvgPool2dOptions& options = {});

struct AvgPool1dOptions {
  std::optional<std::int64_t> stride = std::nullopt;  ///< else kernel_size
  std::int64_t padding = 0;                           ///< zeros; at most half of the kernel
  bool ceil_mode = false;
  bool count_include_pad = true;
};
/// The same for x [N, C, L].
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel_size, const AvgPool1dOptions& options = {});

/// The mean under windows that share the image out among output_size results, whatever its size:
/// result i of n is of elements floor(i H / n) to ceil((i + 1) H / n) - 1.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d output_size);

struct MaxPool2dOptions {
  Size2d stride = same_as_kernel;
  Size2d padding = 0;   ///< never the largest; at most half of what the kernel covers
  Size2d dilation = 1;  ///< between the elements of a window
  bool ceil_mode = false;
};
/// The largest element under each window, whose first of equals gets the gradient; NaN if there is
/// one. A window in which a dilation leaves padding alone is -infinity. Throws Error as conv2d
/// does.
Tensor max_pool2d(const Tensor& x, Size2d kernel_size, const MaxPool2dOptions& options = {});

// Losses. ---------------------------------------------------------------------------------------

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0.0;
  std::int64_t ignore_index = -100;
  Tensor class_weights = {};  ///< [classes], or undefined for equal weights
};

/// Softmax cross entropy of logits [rows, classes] and class numbers [rows] (int64, int32, uint8).
/// mean divides by the (weighted) number of rows that are not ignored; with none, loss and gradient
/// are 0. Throws Error naming row and value of a label outside [0, classes).
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options = {});

/// cross_entropy(linear(x, weight, bias), labels) for x [rows, in_features], as one op: on a GPU
/// one kernel, which has the gradients of logits and x ready for backward.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& labels, const CrossEntropyOptions& options = {});

struct NllOptions {
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;
  Tensor class_weights = {};  ///< [classes], or undefined for equal weights
};

/// The negative log-probability of each label, of log-probabilities [rows, classes] as log_softmax
/// gives them; labels, mean and errors as for cross_entropy, which is the same in one.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                const NllOptions& options = {});

// Element by element, of two tensors of one shape and type; of none, the mean is 0. ---------------

struct L1Options {
  Reduction reduction = Reduction::mean;
};
/// |x - target|; the derivative at 0 is 0.
Tensor l1_loss(const Tensor& x, const Tensor& target, const L1Options& options = {});

struct MseOptions {
  Reduction reduction = Reduction::mean;
};
/// The squared difference.
Tensor mse_loss(const Tensor& x, const Tensor& target, const MseOptions& options = {});

struct HuberOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1.0;  ///< above 0
};
/// d^2 / 2 for a difference up to delta, and delta (|d| - delta / 2) beyond.
Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberOptions& options = {});

struct SmoothL1Options {
  Reduction reduction = Reduction::mean;
  double beta = 1.0;  ///< at least 0
};
/// huber_loss for a delta of beta, divided by beta; l1_loss where beta is 0.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1Options& options = {});

struct BceWithLogitsOptions {
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};  ///< of the positive share, [size of the last dimension], or undefined
};
/// -pos_weight t log p - (1 - t) log(1 - p) for the probability p = 1 / (1 + e^-x) and a target t
/// in [0, 1], for which no gradient can be had.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});

struct KlDivOptions {
  Reduction reduction = Reduction::mean;
  /// The sum divided by the size of the first dimension, which is the divergence of a batch, in
  /// place of the mean over all elements, which is not.
  bool batch_mean = false;
  bool log_target = false;  ///< the target is given as its logarithm
};
/// t (log t - x) for log-probabilities x and a target t that are probabilities, for which no
/// gradient can be had.
Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});

// Not differentiable. ---------------------------------------------------------------------------

/// Index (int64) of the largest of the last dimension, the first of equals. Takes any input.
Tensor argmax(const Tensor& x);

}  // namespace sinter
