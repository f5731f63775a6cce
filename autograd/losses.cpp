// Losses: the forward pass writes the gradient too, so backward is at most one multiplication.
#include <sinter/autograd/autocast.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/loss_parts.h>

namespace sinter {
namespace {

bool is_label_type(DType dtype) {
  return dtype == DType::int64 || dtype == DType::int32 || dtype == DType::uint8;
}

// `logits`: the shape of what the labels are of.
void check_labels(const char* who, const Shape& logits, DType dtype, const Tensor& labels,
                  const Tensor& class_weights) {
  check(logits[1] > 0, who, ": an input ", logits, " has no classes");
  check(labels.defined(), who, ": the labels are undefined");
  const bool one_hot = labels.shape() == logits;
  check(is_label_type(labels.dtype()), who,
        ": labels must be class numbers of type int64, int32 or uint8, got ", labels.dtype(), " ",
        labels.shape(), one_hot ? ", which looks one-hot; take argmax(labels)" : "");
  check(labels.shape() == Shape{logits[0]}, who, ": expected labels [", logits[0],
        "] for an input ", logits, ", got ", labels.shape(),
        one_hot ? ", which looks one-hot; class numbers are wanted" : "");
  check(!class_weights.defined() ||
            (class_weights.shape() == Shape{logits[1]} && class_weights.dtype() == dtype),
        who, ": class weights must be [", logits[1], "] of type ", dtype, ", got ",
        class_weights.dtype(), " ", class_weights.shape());
  check(!class_weights.defined() || !needs_gradient(class_weights), who,
        ": there is no gradient of class weights; detach() them");
}

template <class Options>
Options with_float32_weights(Options options) {
  options.class_weights = in_float32(options.class_weights);
  return options;
}

}  // namespace

Tensor scaled_by_grad(const Backward& b, const Tensor& gradient) {
  if (b.grad_is_one()) {
    return gradient;
  }
  const Tensor& dy = b.grad();
  const bool one_a_row = dy.rank() == 1 && gradient.rank() == 2;
  return gradient * (one_a_row ? dy.reshape({dy.numel(), 1}) : dy);
}

ops::CrossEntropyArgs args_of(const CrossEntropyOptions& options) {
  return {options.reduction, options.label_smoothing, options.ignore_index};
}

void check_cross_entropy(const Shape& logits, DType dtype, const Tensor& labels,
                         const CrossEntropyOptions& options) {
  check_labels("cross_entropy", logits, dtype, labels, options.class_weights);
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1,
        "cross_entropy: label_smoothing must lie in [0, 1], got ", options.label_smoothing);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options) {
  if (wants_float32(logits) || wants_float32(options.class_weights)) {
    return cross_entropy(in_float32(logits), labels, with_float32_weights(options));
  }
  check(logits.defined() && logits.rank() == 2 && is_floating(logits.dtype()),
        "cross_entropy: expected logits [rows, classes] of a floating type, got ", logits.dtype(),
        " ", logits.shape());
  check_cross_entropy(logits.shape(), logits.dtype(), labels, options);
  Recording recording("cross_entropy", {logits});
  const Shape loss_shape = options.reduction == Reduction::none ? labels.shape() : Shape{};
  Tensor loss = Tensor::empty(loss_shape, logits.dtype(), logits.device());
  Tensor gradient =
      recording ? Tensor::empty(logits.shape(), logits.dtype(), logits.device()) : Tensor{};
  ops::cross_entropy(logits, labels, options.class_weights, loss, gradient, args_of(options));
  if (recording) {
    recording.finish(loss, [gradient](Backward& b) { b.give(0, scaled_by_grad(b, gradient)); });
  }
  return loss;
}

Tensor nll_loss(const Tensor& x, const Tensor& labels, const NllOptions& options) {
  if (wants_float32(x) || wants_float32(options.class_weights)) {
    return nll_loss(in_float32(x), labels, with_float32_weights(options));
  }
  check(x.defined() && x.rank() == 2 && is_floating(x.dtype()),
        "nll_loss: expected log-probabilities [rows, classes] of a floating type, got ", x.dtype(),
        " ", x.shape());
  check_labels("nll_loss", x.shape(), x.dtype(), labels, options.class_weights);
  Recording recording("nll_loss", {x});
  const Shape loss_shape = options.reduction == Reduction::none ? labels.shape() : Shape{};
  Tensor loss = Tensor::empty(loss_shape, x.dtype(), x.device());
  Tensor gradient = recording ? Tensor::empty(x.shape(), x.dtype(), x.device()) : Tensor{};
  ops::nll_loss(x, labels, options.class_weights, loss, gradient,
                {options.reduction, 0, options.ignore_index});
  if (recording) {
    recording.finish(loss, [gradient](Backward& b) { b.give(0, scaled_by_grad(b, gradient)); });
  }
  return loss;
}

Tensor argmax(const Tensor& x) {
  check(x.defined() && x.rank() >= 1 && is_floating(x.dtype()) && x.shape().last() > 0,
        "argmax: expected a tensor [..., classes] of a floating type and at least one class");
  const auto outer = x.shape().sizes().first(static_cast<std::size_t>(x.rank() - 1));
  Tensor y = Tensor::empty(Shape(outer), DType::int64, x.device());
  ops::argmax(x, y);
  return y;
}

}  // namespace sinter
