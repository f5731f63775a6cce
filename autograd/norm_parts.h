// What the norms share: the type of statistics, and the gradients of weight and bias, which one op
// computes together.
#pragma once

#include <sinter/autograd/function.h>

namespace sinter {

inline DType statistics_type(DType of) {
  return of == DType::float64 ? DType::float64 : DType::float32;
}

/// Throws Error, in `who`'s name, unless `what` is undefined or of that shape and type.
inline void check_affine(const char* who, const char* what, const Tensor& parameter,
                         const Shape& shape, DType dtype) {
  check(!parameter.defined() || (parameter.shape() == shape && parameter.dtype() == dtype), who,
        ": ", what, " must be ", dtype, " ", shape, ", got ", parameter.dtype(), " ",
        parameter.shape());
}

/// Weight and bias of a norm, as inputs `first` and `first` + 1 of a recorded function.
class AffineParameters {
 public:
  AffineParameters(int first, const Tensor& weight, const Tensor& bias, const Shape& shape)
      : first_(first),
        shape_(shape),
        is_shared_(weight.defined() && weight.leaf() != nullptr && weight.leaf() == bias.leaf()) {}

  /// Calls compute(dw, db, flags) once; what nobody wants is undefined.
  template <class Compute>
  void write(Backward& b, Compute compute) const {
    Tensor none;
    ops::WeightGradientFlags flags;
    const auto with_bias = [&](Tensor& dw) {
      if (!b.needs(first_ + 1)) {
        return compute(dw, none, flags);
      }
      b.write(first_ + 1, shape_, [&](Tensor& db, bool accumulate) {
        flags.accumulate_bias = accumulate;
        compute(dw, db, flags);
      });
    };
    if (is_shared_ && b.needs(first_)) {
      // One leaf as both: each gradient needs a place of its own before they are added up.
      const Tensor& grad = b.grad();
      Tensor dw = Tensor::empty(shape_, grad.dtype(), grad.device());
      Tensor db = Tensor::empty(shape_, grad.dtype(), grad.device());
      compute(dw, db, flags);
      b.give(first_, dw);
      b.give(first_ + 1, db);
    } else if (b.needs(first_)) {
      b.write(first_, shape_, [&](Tensor& dw, bool accumulate) {
        flags.accumulate_weight = accumulate;
        with_bias(dw);
      });
    } else {
      with_bias(none);
    }
  }

 private:
  int first_;
  Shape shape_;
  bool is_shared_;
};

}  // namespace sinter
