// Activations and dropout, alone and behind a Linear's product.
#include <optional>
#include <string>
#include <utility>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/draw.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/loss_parts.h>

namespace sinter {

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
  Recording recording(std::visit([](const auto& a) { return a.name; }, act), {x});
  const ops::ActivationArgs args{act, draw_mask("activation", dropout), x.dtype()};
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::activation_forward(x, y, args);
  if (recording) {
    recording.finish(y, [args, kept = Saved(math::needs_input(act) ? x : y)](Backward& b) {
      Tensor dx = Tensor::empty(b.grad().shape(), b.grad().dtype(), b.grad().device());
      ops::activation_backward(b.saved(kept), b.grad(), dx, args);
      b.give(0, dx);
    });
  }
  return y;
}

Tensor dropout(const Tensor& x, const DropoutOptions& options) {
  check_floating("dropout", x);
  const ops::DropoutArgs args = draw_mask("dropout", options);
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
  check(fit_one_product(x, weight) && (!bias.defined() || fit_one_product(x, bias)),
        "linear: the input is ", x.dtype(), ", the weight ", weight.dtype(), " and the bias ",
        bias.defined() ? name_of(bias.dtype()) : "absent", "; convert with to(dtype)");
}

// The gradients of a Linear's three inputs, from that of its product plus bias. `x_in` and `w` are
// what was multiplied, which under Autocast are not the inputs themselves.
struct LinearBackward {
  bool grouped;  // see ops::backward_is_grouped
  DType factors;
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;
  Saved x;
  Saved weight;

  LinearBackward(const Recording& recording, const Tensor& x_in, const Tensor& w)
      : grouped(ops::backward_is_grouped(x_in, w)),
        factors(w.dtype()),
        rows(x_in.shape().rows()),
        in(w.size(1)),
        out(w.size(0)),
        x(recording.needs(1) ? Saved(x_in) : Saved()),
        weight(recording.needs(0) ? Saved(w) : Saved()) {}

  // From the gradient of the product: all three, but for a bias whose gradient is there.
  void all(Backward& b, const Tensor& of_product, bool with_bias) const {
    // Of a float32 result of 16-bit factors, the bias gets all bits.
    const Tensor narrow = of_product.dtype() == factors ? Tensor{} : cast(of_product, factors);
    const Tensor& dz = narrow.defined() ? narrow : of_product;
    input(b, dz);
    parameters(b, dz, with_bias ? &of_product : nullptr);
  }

  void input(Backward& b, const Tensor& dz) const {
    if (!b.needs(0)) {
      return;
    }
    if (const Pass* below = grouped ? b.pass_below(0) : nullptr) {
      Tensor dx = Tensor::empty({rows, in}, dz.dtype(), dz.device());
      ops::linear_backward_input(dz, b.saved(weight), b.saved(below->kept), dx, below->args);
      b.give_through_pass(0, dx);
      return;
    }
    b.write(0, {rows, in}, [&](Tensor& dx, bool accumulate) {
      ops::matmul(dz, b.saved(weight), dx, {.accumulate = accumulate});
    });
  }

  // `for_bias`: what its gradient is the sum of, or null.
  void parameters(Backward& b, const Tensor& dz, const Tensor* for_bias) const {
    const int bias = for_bias != nullptr ? 2 : -1;
    // x is kept for a weight that is trained.
    if (grouped && b.needs(1) && b.can_defer(1, bias)) {
      b.defer_weights(1, bias, dz, x);
      return;
    }
    b.write(1, {out, in}, [&](Tensor& dw, bool accumulate) {
      ops::matmul(dz, b.saved(x).reshape({rows, in}), dw,
                  {.transpose_a = true, .accumulate = accumulate});
    });
    if (for_bias != nullptr) {
      b.write(2, {out},
              [&](Tensor& db, bool accumulate) { ops::sum_to(*for_bias, db, accumulate); });
    }
  }
};

// What a product multiplies, and adds to it: outside of a scope the inputs themselves, which are
// not copied.
struct LinearOperands {
  bool is_cast;
  Tensor copies[3] = {};
  const Tensor& x;
  const Tensor& weight;
  const Tensor& bias;  // of the result's type
  DType result;

  // `wide`: with a result in float32.
  LinearOperands(const Tensor& x_in, const Tensor& w, const Tensor& b, bool wide)
      : is_cast(is_autocast(x_in.dtype())),
        x(is_cast ? copies[0] = product_operand(x_in) : x_in),
        weight(is_cast ? copies[1] = product_operand(w) : w),
        bias(is_cast ? copies[2] = wide && b.defined() ? cast(b.detach(), DType::float32)
                                                       : product_operand(b)
                     : b),
        result(is_cast && wide ? DType::float32 : x.dtype()) {}
};

// `act` unset: the product and the bias alone. `wide`: where operands are cast, the result is
// float32 all the same.
Tensor linear_then(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const std::optional<math::AnyActivation>& act, const DropoutOptions& dropout,
                   bool wide = false) {
  check_linear(x, weight, bias);
  Recording recording("linear", {x, weight, bias});
  const LinearOperands of(x, weight, bias, wide);
  const ops::ActivationArgs args{act, draw_mask("linear", dropout), of.result};
  const Shape shape = x.shape().with(-1, weight.size(0));
  Tensor y = Tensor::empty(shape, of.result, x.device());
  const bool keeps_z = recording && act && math::needs_input(*act);
  Tensor z = keeps_z ? Tensor::empty(shape, of.result, x.device()) : Tensor{};
  ops::linear_forward(of.x, of.weight, of.bias, z, y, args);
  if (!recording) {
    return y;
  }
  // Without activation and dropout, the gradient of the product is the one that comes in.
  const auto pass =
      act ? std::make_shared<const Pass>(Pass{args, Saved(keeps_z ? z : y)}) : nullptr;
  recording.finish(
      y,
      [pass, linear = LinearBackward(recording, of.x, of.weight)](Backward& b) {
        Tensor dz;
        bool bias_is_done = false;
        if (pass != nullptr && !b.grad_is_through_pass()) {
          dz = b.over_grad();
          bias_is_done = b.needs(2) && !linear.grouped;
          if (bias_is_done) {
            b.write(2, {linear.out}, [&](Tensor& db, bool accumulate) {
              ops::activation_backward_bias(b.saved(pass->kept), b.grad(), dz, db, pass->args,
                                            accumulate);
            });
          } else {
            ops::activation_backward(b.saved(pass->kept), b.grad(), dz, pass->args);
          }
        } else {
          dz = b.grad();
        }
        linear.all(b, dz.reshape({linear.rows, linear.out}), !bias_is_done);
      },
      pass);
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

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& labels, const CrossEntropyOptions& options) {
  check_linear(x, weight, bias);
  check(x.rank() == 2, "linear_cross_entropy: expected an input [rows, in_features], got ",
        x.shape());
  if (is_autocast(x.dtype())) {
    return cross_entropy(linear_then(x, weight, bias, {}, {}, /*wide=*/true), labels, options);
  }
  check_cross_entropy({x.size(0), weight.size(0)}, x.dtype(), labels, options);
  Recording recording("linear_cross_entropy", {x, weight, bias});
  const ops::CrossEntropyArgs loss_args = args_of(options);
  Tensor loss = Tensor::empty(options.reduction == Reduction::none ? labels.shape() : Shape{},
                              x.dtype(), x.device());
  Tensor dlogits, dx;
  const Pass* pass = nullptr;
  if (recording) {
    dlogits = Tensor::empty({x.size(0), weight.size(0)}, x.dtype(), x.device());
    pass = ops::backward_is_grouped(x, weight) ? recording.pass_of(0) : nullptr;
    if (pass != nullptr) {
      dx = Tensor::empty(x.shape(), x.dtype(), x.device());
    }
  }
  const Tensor kept = pass != nullptr ? pass->kept.get("linear_cross_entropy") : Tensor{};
  ops::linear_cross_entropy(x, weight, bias, labels, options.class_weights, kept, loss, dlogits, dx,
                            loss_args, pass != nullptr ? pass->args : ops::ActivationArgs{});
  if (recording) {
    recording.finish(loss,
                     [dlogits, dx, linear = LinearBackward(recording, x, weight)](Backward& b) {
                       const Tensor dz = scaled_by_grad(b, dlogits);
                       // The gradient through the pass below is of use only if nobody else had a
                       // share in it.
                       if (dx.defined() && b.pass_below(0) != nullptr) {
                         b.give_through_pass(0, scaled_by_grad(b, dx));
                       } else {
                         linear.input(b, dz);
                       }
                       linear.parameters(b, dz, &dz);
                     });
  }
  return loss;
}

}  // namespace sinter
