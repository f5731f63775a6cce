// Functions over the rows of a tensor: softmax, norms, gated linear units.
#include <cmath>
#include <optional>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/draw.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/norm_parts.h>

namespace sinter {
namespace {

Tensor softmax_of(const char* who, const Tensor& input, int dim, ops::SoftmaxArgs args,
                  const DropoutOptions& dropout = {}) {
  check_floating(who, input);
  const Tensor x = in_float32(input);
  check(x.rank() >= 1, who, ": expected a tensor [..., classes], got a scalar");
  check(dim == -1 || dim == x.rank() - 1, who,
        ": only the last dimension can be gone over; dim is ", dim, " for ", x.shape());
  Recording recording(who, {x});
  args.dropout = draw_mask(who, dropout);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::softmax(x, y, args);
  if (recording) {
    recording.finish(y, [kept = Saved(args.drops() ? x : y), args](Backward& b) {
      Tensor dx = b.over_grad();
      ops::softmax_backward(b.saved(kept), b.grad(), dx, args);
      b.give(0, dx);
    });
  }
  return y;
}

void check_norm(const char* who, const Tensor& x, const Shape& normalized, double eps) {
  check_floating(who, x);
  check_norm_options(who, normalized, eps);
  bool fits = x.rank() >= normalized.rank();
  for (int d = 1; fits && d <= normalized.rank(); ++d) {
    fits = x.size(x.rank() - d) == normalized[normalized.rank() - d];
  }
  check(fits, who, ": expected an input whose last dimensions are ", normalized, ", got ",
        x.shape());
}

// `centred`: layer_norm, else rms_norm.
Tensor norm(const char* who, const Tensor& of_input, const Shape& normalized,
            const Tensor& of_weight, const Tensor& of_bias, double eps, const NormTail& tail,
            bool centred) {
  const Tensor x = in_float32(of_input), weight = in_float32(of_weight), bias = in_float32(of_bias);
  check_norm(who, x, normalized, eps);
  check_affine(who, "weight", weight, normalized, x.dtype());
  check_affine(who, "bias", bias, normalized, x.dtype());
  if (tail.act) {
    check_activation(who, *tail.act);
  }
  Recording recording(who, {x, weight, bias});
  const ops::NormArgs args{eps, {tail.act, draw_mask(who, tail.dropout)}};
  const Shape rows{x.numel() / normalized.numel()};
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  Tensor mean = centred ? Tensor::empty(rows, statistics_type(x.dtype()), x.device()) : Tensor{};
  Tensor rstd = Tensor::empty(rows, statistics_type(x.dtype()), x.device());
  ops::norm_forward(x, weight, bias, y, mean, rstd, args);
  if (recording) {
    // The activation's derivative takes z, which is computed again from x.
    const Tensor of_z = tail.act ? bias : Tensor{};
    recording.finish(
        y, [tail = args.tail, x = Saved(x), weight = Saved(weight), bias = Saved(of_z), mean, rstd,
            parameters = AffineParameters(1, weight, bias, normalized)](Backward& b) {
          Tensor dx = b.needs(0) ? Tensor::empty(b.grad().shape(), b.grad().dtype(), rstd.device())
                                 : Tensor{};
          parameters.write(b, [&](Tensor& dw, Tensor& db, const ops::WeightGradientFlags& flags) {
            ops::norm_backward(b.saved(x), b.saved(weight), b.saved(bias), mean, rstd, b.grad(), dx,
                               dw, db, tail, flags);
          });
          if (dx.defined()) {
            b.give(0, dx);
          }
        });
  }
  return y;
}

}  // namespace

void check_norm_options(const char* who, const Shape& normalized_shape, double eps) {
  check(normalized_shape.rank() >= 1 && normalized_shape.numel() > 0, who,
        ": normalized_shape must have a dimension and no empty one, got ", normalized_shape);
  check(std::isfinite(eps) && eps >= 0, who, ": eps must be finite and at least 0, got ", eps);
}

Tensor softmax(const Tensor& x, int dim, const DropoutOptions& dropout) {
  return softmax_of("softmax", x, dim, {}, dropout);
}

Tensor log_softmax(const Tensor& x, int dim) {
  return softmax_of("log_softmax", x, dim, {.log = true});
}

Tensor softmin(const Tensor& x, int dim) {
  return softmax_of("softmin", x, dim, {.negated = true});
}

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps, const NormTail& tail) {
  return norm("layer_norm", x, normalized_shape, weight, bias, eps, tail, true);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps, const NormTail& tail) {
  check_floating("rms_norm", x);
  const double spacing = x.dtype() == DType::float64 ? 0x1p-52 : 0x1p-23;
  return norm("rms_norm", x, normalized_shape, weight, {}, eps.value_or(spacing), tail, false);
}

Tensor glu(const Tensor& x, const math::AnyActivation& gate, const DropoutOptions& dropout) {
  check_floating("glu", x);
  check_activation("glu", gate);
  check(x.rank() >= 1 && x.shape().last() % 2 == 0,
        "glu: expected an input whose last dimension has two halves, got ", x.shape());
  Recording recording("glu", {x});
  const ops::ActivationArgs args{gate, draw_mask("glu", dropout)};
  Tensor y = Tensor::empty(x.shape().with(-1, x.shape().last() / 2), x.dtype(), x.device());
  ops::glu_forward(x, y, args);
  if (recording) {
    recording.finish(y, [args, kept = Saved(x)](Backward& b) {
      const Tensor& halves = b.saved(kept);
      Tensor dx = Tensor::empty(halves.shape(), halves.dtype(), halves.device());
      ops::glu_backward(halves, b.grad(), dx, args);
      b.give(0, dx);
    });
  }
  return y;
}

}  // namespace sinter
