// Activations and dropout, alone and behind a Linear's product.
#include <optional>
#include <string>
#include <utility>

#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>

namespace sinter {
namespace {

bool needs_input(const math::AnyActivation& act) {
  return std::visit([]<class A>(const A&) { return math::derives_from_input<A>; }, act);
}

// Draws a call from the generator where there is something to draw.
ops::DropoutArgs draw(const char* who, const DropoutOptions& options) {
  check_probability(who, options.p);
  math::DropoutMask probe = math::dropout_mask(options.p, 0, 0, 0, options.scheme);
  if (probe.is_identity()) {
    return {probe};
  }
  check(options.generator != nullptr, who,
        ": dropout needs a generator; a layer has its model's, a functional call passes one as "
        "{.p = ..., .generator = ...}");
  const DropoutCall call = options.generator->take_call();
  if (Tape* tape = Tape::current()) {
    tape->uses(options.generator);
  }
  return {math::dropout_mask(options.p, call.seed, call.call, call.step, options.scheme)};
}

void check_floating(const char* who, const Tensor& x) {
  check(x.defined() && is_floating(x.dtype()), who, ": expected elements of a floating type, got ",
        x.defined() ? name_of(x.dtype()) : "an undefined tensor");
}

}  // namespace

void check_probability(const char* who, double p) {
  check(p >= 0 && p <= 1, who, ": the dropout probability must lie in [0, 1], got ", p);
}

void check_activation(const char* who, const math::AnyActivation& act) {
  std::visit(
      [who](const auto& a) {
        check(a.valid(), who, ": parameters of ", a.name, " out of range; expected ",
              a.requirement);
      },
      act);
}

Tensor activation(const Tensor& x, const math::AnyActivation& act, const DropoutOptions& dropout) {
  check_floating("activation", x);
  check_activation("activation", act);
  Recording recording("activation", {x});
  const ops::ActivationArgs args{act, draw("activation", dropout), x.dtype()};
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::activation_forward(x, y, args);
  if (recording) {
    recording.finish(y, [args, kept = Saved(needs_input(act) ? x : y)](Backward& b) {
      Tensor dx = Tensor::empty(b.grad().shape(), b.grad().dtype(), b.grad().device());
      ops::activation_backward(b.saved(kept), b.grad(), dx, args);
      b.give(0, dx);
    });
  }
  return y;
}

Tensor dropout(const Tensor& x, const DropoutOptions& options) {
  check_floating("dropout", x);
  const ops::DropoutArgs args = draw("dropout", options);
  if (args.mask.is_identity()) {
    return x;
  }
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::dropout(x, y, args);
  record("dropout", {x}, y, [args](Backward& b) {
    Tensor dx = Tensor::empty(b.grad().shape(), b.grad().dtype(), b.grad().device());
    ops::dropout(b.grad(), dx, args);
    b.give(0, dx);
  });
  return y;
}

namespace {

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_floating("linear", x);
  check(weight.defined() && weight.rank() == 2,
        "linear: the weight must be [out_features, "
        "in_features], got ",
        weight.shape());
  check(!bias.defined() || bias.shape() == Shape{weight.size(0)}, "linear: the bias must be [",
        weight.size(0), "] for a weight ", weight.shape(), ", got ", bias.shape());
  const std::int64_t in = weight.size(1);
  const bool unflattened = x.rank() > 2 && x.numel() == x.size(0) * in;
  check(x.rank() >= 1 && x.shape().last() == in, "linear: expected an input of [..., ", in,
        "], got ", x.shape(), unflattened ? "; put a Flatten before it" : "");
  check(x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype()),
        "linear: the input is ", x.dtype(), ", the weight ", weight.dtype(), " and the bias ",
        bias.defined() ? name_of(bias.dtype()) : "absent", "; convert with to(dtype)");
}

// `act` unset: the product and the bias alone.
Tensor linear_then(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const std::optional<math::AnyActivation>& act, const DropoutOptions& dropout) {
  check_linear(x, weight, bias);
  Recording recording("linear", {x, weight, bias});
  const ops::ActivationArgs args{act, draw("linear", dropout), x.dtype()};
  const Shape shape = x.shape().with(-1, weight.size(0));
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  const bool keeps_z = recording && act && needs_input(*act);
  Tensor z = keeps_z ? Tensor::empty(shape, x.dtype(), x.device()) : Tensor{};
  ops::linear_forward(x, weight, bias, z, y, args);
  if (!recording) {
    return y;
  }
  // Without activation and dropout, the gradient of the product is the one that comes in.
  const bool has_pass = act.has_value();
  recording.finish(y, [args, has_pass, rows = x.shape().rows(), out = weight.size(0),
                       in = weight.size(1), x_kept = recording.needs(1) ? Saved(x) : Saved(),
                       w_kept = recording.needs(0) ? Saved(weight) : Saved(),
                       kept = has_pass ? Saved(keeps_z ? z : y) : Saved()](Backward& b) {
    Tensor dz = b.grad();
    if (has_pass) {
      dz = Tensor::empty(b.grad().shape(), b.grad().dtype(), b.grad().device());
      if (b.needs(2)) {
        b.write(2, {out}, [&](Tensor& db, bool accumulate) {
          ops::activation_backward_bias(b.saved(kept), b.grad(), dz, db, args, accumulate);
        });
      } else {
        ops::activation_backward(b.saved(kept), b.grad(), dz, args);
      }
    }
    const Tensor dz_matrix = dz.reshape({rows, out});
    b.write(0, {rows, in}, [&](Tensor& dx, bool accumulate) {
      ops::matmul(dz_matrix, b.saved(w_kept), dx, {.accumulate = accumulate});
    });
    b.write(1, {out, in}, [&](Tensor& dw, bool accumulate) {
      ops::matmul(dz_matrix, b.saved(x_kept).reshape({rows, in}), dw,
                  {.transpose_a = true, .accumulate = accumulate});
    });
    if (!has_pass) {
      b.write(2, {out},
              [&](Tensor& db, bool accumulate) { ops::sum_to(dz_matrix, db, accumulate); });
    }
  });
  return y;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_then(x, weight, bias, {}, {});
}

Tensor linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const math::AnyActivation& act, const DropoutOptions& dropout) {
  check_activation("linear", act);
  return linear_then(x, weight, bias, act, dropout);
}

}  // namespace sinter
