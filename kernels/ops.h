// The table of ops: what can be computed, with what arguments. How, on which device, is one
// function behind each (kernels/cpu); ops.cpp pairs them up. An op knows neither
// gradients nor layers. Shapes and types are checked by the callers in autograd.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <sinter/kernels/dispatch.h>
#include <sinter/kernels/math/activations.h>
#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/math/optimizers.h>

namespace sinter::ops {

/// A dropout mask laid over a tensor: element i of the tensor takes keep(first + i).
struct DropoutArgs {
  math::DropoutMask mask;
  std::uint64_t first = 0;
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

// Element-wise. ------------------------------------------------------------------------------

/// y = dropout(act(x)), one pass.
extern const Op<In, Out, const ActivationArgs&> activation_forward;
/// dx = dy * d(dropout(act(x)))/dx. `kept` is x or y of the forward pass, as the activation's
/// derivative needs (math::needs_input); the mask is drawn again, never stored.
extern const Op<In, In, Out, const ActivationArgs&> activation_backward;
/// The same for y = dropout(act(x w^T + bias)), and the bias's gradient (on the CPU in
/// the same pass): the sum of dx over all dimensions but the last, in a fixed order. The flag: add
/// to the gradient.
extern const Op<In, In, Out, InOut, const ActivationArgs&, bool> activation_backward_bias;
/// y = x where kept, scaled, else 0. Its own backward.
extern const Op<In, Out, const DropoutArgs&> dropout;
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
/// The flag: add to y instead of overwriting it.
extern const Op<In, InOut, bool> sum_to;

// Matrices. -----------------------------------------------------------------------------------

struct MatmulArgs {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< c += a b instead of c = a b
};
/// c = a b, two-dimensional.
extern const Op<In, In, InOut, const MatmulArgs&> matmul;
/// y = dropout(act(x w^T + bias)); x [rows, in], w [out, in], bias [out] or absent, y [rows, out].
/// Bias, activation and dropout are one pass after the product, on the CPU over each block of it.
/// On CUDA a 16-bit product is rounded before the bias is added. `z`, where
/// given, receives x w^T + bias for a derivative that needs it.
extern const Op<In, In, In, Out, Out, const ActivationArgs&> linear_forward;

// Losses. -------------------------------------------------------------------------------------

/// logits [rows, classes], labels [rows] (int64, int32 or uint8), class weights [classes] or
/// absent. loss: a scalar, or [rows] for Reduction::none. `grad`, where given, receives
/// d(loss)/d(logits) in the same pass (for none: each row's own). Throws Error naming row and
/// value of a label outside [0, classes) that is not ignore_index.
extern const Op<In, In, In, Out, Out, const CrossEntropyArgs&> cross_entropy;
/// The mean, sum or each of (x - target)^2; `grad` as above.
extern const Op<In, In, Out, Out, Reduction> mse_loss;

// Inference and data. ---------------------------------------------------------------------------

/// Softmax over the last dimension.
extern const Op<In, Out> softmax;
/// Index (int64) of the largest of the last dimension, the first of equals; NaN counts as largest.
extern const Op<In, Out> argmax;
/// Row indices[i] of the uint8 matrix `bytes` becomes row i of y, normalised.
extern const Op<In, In, Out, const NormaliseArgs&> gather_normalise;
/// Row indices[i] of `rows` (any type) becomes row i of y.
extern const Op<In, In, Out> gather_rows;

// Optimizers, over flat buffers: one element for each parameter. --------------------------------

extern const Op<InOut, In, InOut, const math::SgdConstants<double>&> sgd_update;
extern const Op<InOut, In, InOut, InOut, const math::AdamConstants<double>&> adam_update;

// The table itself. ------------------------------------------------------------------------------

/// One row: the op and the devices that have a kernel for it.
struct OpInfo {
  const char* name;
  bool cpu;
  bool cuda;
};
/// All of the above, in order.
std::span<const OpInfo> table();

}  // namespace sinter::ops
