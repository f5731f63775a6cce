// Arithmetic with broadcasting, sums, views and plain matrix products.
#include <vector>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>

namespace sinter {
namespace {

using BinaryOp = Op<In, In, Out>;

void check_pair(const char* name, const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), name, ": an operand is undefined");
  check(a.dtype() == b.dtype(), name, ": the operands are ", a.dtype(), " and ", b.dtype(),
        "; convert one with to(dtype)");
  check(is_floating(a.dtype()), name, ": arithmetic is for floating types, got ", a.dtype());
}

Tensor compute(const BinaryOp& op, const Tensor& a, const Tensor& b) {
  check_pair(op.name, a, b);
  Tensor y = Tensor::empty(broadcast(op.name, a.shape(), b.shape()), a.dtype(), a.device());
  op(a, b, y);
  return y;
}

// Hands over a gradient that has the broadcast shape: summed over what was broadcast.
void give_summed(Backward& b, int input, const Shape& shape, const Tensor& gradient) {
  if (gradient.shape() == shape) {
    b.give(input, gradient);
    return;
  }
  b.write(input, shape,
          [&](Tensor& sum, bool accumulate) { ops::sum_to(gradient, sum, accumulate); });
}

Tensor scaled(const Tensor& x, double scale, double shift) {
  check(x.defined() && is_floating(x.dtype()),
        "arithmetic with a number: expected a tensor of a floating type");
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::affine(x, y, scale, shift);
  record("affine", {x}, y,
         [scale](Backward& b) { b.give(0, scale == 1 ? b.grad() : b.grad() * scale); });
  return y;
}

// Whether an op that writes y would write elements of x that it has yet to read.
bool is_overwritten(const Tensor& x, const Tensor& y) {
  const bool element_by_element = x.address() == y.address() && x.shape() == y.shape();
  return !element_by_element && x.address() < y.address() + y.bytes() &&
         y.address() < x.address() + x.bytes();
}

// y = y op x, in y's elements.
template <class GradientOfX>
Tensor& in_place(const BinaryOp& op, Tensor& y, const Tensor& x, GradientOfX gradient_of_x) {
  if (is_widened(y, x)) {
    return in_place(op, y, cast(x, y.dtype()), gradient_of_x);
  }
  check_pair(op.name, y, x);
  check(Tape::current() == nullptr || !y.requires_grad(), op.name,
        ": a leaf that requires a gradient cannot be changed in place while a tape records");
  check(broadcast(op.name, y.shape(), x.shape()) == y.shape(), op.name,
        ": in place, the result must keep the shape ", y.shape(), "; the other operand is ",
        x.shape());
  Recording recording(op.name, {y, x});
  op(y, is_overwritten(x, y) ? x.detach().clone() : x, y);
  if (recording) {
    recording.finish_in_place(y, [shape = x.shape(), gradient_of_x](Backward& b) {
      b.give(0, b.grad());
      if (b.needs(1)) {
        give_summed(b, 1, shape, gradient_of_x(b.grad()));
      }
    });
  }
  return y;
}

Tensor& affine_in_place(Tensor& y, double scale, double shift) {
  check(y.defined() && is_floating(y.dtype()),
        "arithmetic with a number: expected a tensor of a floating type");
  check(Tape::current() == nullptr || !y.requires_grad(),
        "a leaf that requires a gradient cannot be changed in place while a tape records");
  Recording recording("affine", {y});
  ops::affine(y, y, scale, shift);
  if (recording) {
    recording.finish_in_place(
        y, [scale](Backward& b) { b.give(0, scale == 1 ? b.grad() : b.grad() * scale); });
  }
  return y;
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (is_widened(a, b)) {
    return in_float32(a) + in_float32(b);
  }
  Tensor y = compute(ops::add, a, b);
  record("add", {a, b}, y, [left = a.shape(), right = b.shape()](Backward& back) {
    give_summed(back, 0, left, back.grad());
    give_summed(back, 1, right, back.grad());
  });
  return y;
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  if (is_widened(a, b)) {
    return in_float32(a) - in_float32(b);
  }
  Tensor y = compute(ops::subtract, a, b);
  record("subtract", {a, b}, y, [left = a.shape(), right = b.shape()](Backward& back) {
    give_summed(back, 0, left, back.grad());
    if (back.needs(1)) {
      give_summed(back, 1, right, -back.grad());
    }
  });
  return y;
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  if (is_widened(a, b)) {
    return in_float32(a) * in_float32(b);
  }
  Recording recording("multiply", {a, b});
  Tensor y = compute(ops::multiply, a, b);
  if (recording) {
    recording.finish(
        y, [left = a.shape(), right = b.shape(), x = recording.needs(1) ? Saved(a) : Saved(),
            z = recording.needs(0) ? Saved(b) : Saved()](Backward& back) {
          if (back.needs(0)) {
            give_summed(back, 0, left, back.grad() * back.saved(z));
          }
          if (back.needs(1)) {
            give_summed(back, 1, right, back.grad() * back.saved(x));
          }
        });
  }
  return y;
}

Tensor operator/(const Tensor& a, const Tensor& b) {
  if (is_widened(a, b)) {
    return in_float32(a) / in_float32(b);
  }
  Recording recording("divide", {a, b});
  Tensor y = compute(ops::divide, a, b);
  if (recording) {
    recording.finish(y, [left = a.shape(), right = b.shape(), z = Saved(b),
                         x = recording.needs(1) ? Saved(a) : Saved()](Backward& back) {
      const Tensor& divisor = back.saved(z);
      const Tensor by_x = back.grad() / divisor;
      give_summed(back, 0, left, by_x);
      if (back.needs(1)) {
        give_summed(back, 1, right, -(by_x * back.saved(x)) / divisor);
      }
    });
  }
  return y;
}

Tensor operator+(const Tensor& a, double b) { return scaled(a, 1, b); }
Tensor operator-(const Tensor& a, double b) { return scaled(a, 1, -b); }
Tensor operator*(const Tensor& a, double b) { return scaled(a, b, 0); }
Tensor operator/(const Tensor& a, double b) { return scaled(a, 1 / b, 0); }
Tensor operator+(double a, const Tensor& b) { return scaled(b, 1, a); }
Tensor operator-(double a, const Tensor& b) { return scaled(b, -1, a); }
Tensor operator*(double a, const Tensor& b) { return scaled(b, a, 0); }
Tensor operator-(const Tensor& a) { return scaled(a, -1, 0); }

Tensor& operator+=(Tensor& y, const Tensor& x) {
  return in_place(ops::add, y, x, [](const Tensor& dy) { return dy; });
}
Tensor& operator-=(Tensor& y, const Tensor& x) {
  return in_place(ops::subtract, y, x, [](const Tensor& dy) { return -dy; });
}
Tensor& operator+=(Tensor& y, double x) { return affine_in_place(y, 1, x); }
Tensor& operator*=(Tensor& y, double x) { return affine_in_place(y, x, 0); }

namespace {

// The gradient of scale * sum(x): the same for every element.
void give_spread(Backward& b, const Shape& shape, double scale) {
  const Tensor zeros = Tensor::zeros(shape, b.grad().dtype(), b.grad().device());
  b.give(0, zeros + (scale == 1 ? b.grad() : b.grad() * scale));
}

}  // namespace

Tensor sum(const Tensor& x_in) {
  check(x_in.defined() && is_floating(x_in.dtype()), "sum: expected a tensor of a floating type");
  const Tensor x = in_float32(x_in);
  Tensor y = Tensor::empty({}, x.dtype(), x.device());
  ops::sum_to(x, y, false);
  record("sum", {x}, y, [shape = x.shape()](Backward& b) { give_spread(b, shape, 1); });
  return y;
}

Tensor mean(const Tensor& x_in) {
  check(x_in.numel() > 0, "mean: of no elements it is undefined");
  check(is_floating(x_in.dtype()), "mean: expected a tensor of a floating type");
  const Tensor x = in_float32(x_in);
  // The sum of a 16-bit tensor may be beyond its type where the mean is not.
  const bool narrow = size_of(x.dtype()) < size_of(DType::float32);
  const double scale = 1.0 / static_cast<double>(x.numel());
  const Tensor values = x.detach();
  Tensor y = cast(sum(narrow ? cast(values, DType::float32) : values) * scale, x.dtype());
  record("mean", {x}, y, [shape = x.shape(), scale](Backward& b) { give_spread(b, shape, scale); });
  return y;
}

Tensor rows(const Tensor& x, std::int64_t begin, std::int64_t end) {
  Tensor y = x.detach().view_rows(begin, end);
  if (x.slot().tape == 0) {
    y.set_slot(x.slot());
  }
  record("rows", {x}, y, [shape = x.shape(), begin, end](Backward& b) {
    Tensor dx = Tensor::zeros(shape, b.grad().dtype(), b.grad().device());
    dx.view_rows(begin, end).copy_from(b.grad());
    b.give(0, dx);
  });
  return y;
}

Tensor flatten(const Tensor& x, int start_dim) {
  const Shape& shape = x.shape();
  const int start = start_dim < 0 ? start_dim + shape.rank() : start_dim;
  check(start >= 0 && start < shape.rank(), "flatten: start_dim ", start_dim,
        " does not exist in shape ", shape);
  std::vector<std::int64_t> sizes;
  std::int64_t rest = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < start) {
      sizes.push_back(shape[i]);
    } else {
      rest *= shape[i];
    }
  }
  sizes.push_back(rest);
  return x.reshape(Shape(std::span<const std::int64_t>(sizes)));
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  if (!is_widened(a, b)) {  // which are made one type below
    check_pair("matmul", a, b);
  }
  check(a.rank() == 2 && b.rank() == 2, "matmul: expected two matrices, got shapes ", a.shape(),
        " and ", b.shape());
  const std::int64_t m = a.size(transpose_a ? 1 : 0);
  const std::int64_t k = a.size(transpose_a ? 0 : 1);
  const std::int64_t n = b.size(transpose_b ? 0 : 1);
  check(b.size(transpose_b ? 1 : 0) == k, "matmul: the inner sizes of ", a.shape(),
        transpose_a ? " transposed" : "", " and ", b.shape(), transpose_b ? " transposed" : "",
        " differ");
  Recording recording("matmul", {a, b});
  const Tensor left_factor = product_operand(a), right_factor = product_operand(b);
  Tensor y = Tensor::empty({m, n}, left_factor.dtype(), a.device());
  ops::matmul(left_factor, right_factor, y,
              {.transpose_a = transpose_a, .transpose_b = transpose_b});
  if (!recording) {
    return y;
  }
  // With A' and B' the factors as they enter: dA' = dy B'^T and dB' = A'^T dy, and a factor that
  // entered transposed gets the transpose of that.
  recording.finish(y, [left = a.shape(), right = b.shape(), transpose_a, transpose_b,
                       x = recording.needs(1) ? Saved(left_factor) : Saved(),
                       z = recording.needs(0) ? Saved(right_factor) : Saved()](Backward& back) {
    const Tensor& dy = back.grad();
    back.write(0, left, [&](Tensor& dx, bool accumulate) {
      if (transpose_a) {
        ops::matmul(back.saved(z), dy, dx, {transpose_b, true, accumulate});
      } else {
        ops::matmul(dy, back.saved(z), dx, {false, !transpose_b, accumulate});
      }
    });
    back.write(1, right, [&](Tensor& dz, bool accumulate) {
      if (transpose_b) {
        ops::matmul(dy, back.saved(x), dz, {true, transpose_a, accumulate});
      } else {
        ops::matmul(back.saved(x), dy, dz, {!transpose_a, false, accumulate});
      }
    });
  });
  return y;
}

}  // namespace sinter
