// Ops on the rows of a tensor: softmax, norms, gated linear units.
#include <algorithm>
#include <cmath>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// Calls body(row, room) for each row, with room of its thread's; results do not depend on the cuts.
template <class Room, class Body>
void for_each_row(std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, parallel_grain / 4 / std::max<std::int64_t>(columns, 1));
  parallel_shares(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    Room room;
    for (std::int64_t row = begin; row < end; ++row) {
      body(row, room);
    }
  });
}
struct NoRoom {};

template <class T>
double real(const T* x, std::int64_t i) {
  return static_cast<double>(x[i]);
}

template <class T>
BoundActivation<T> mask_of(const ops::DropoutArgs& dropout) {
  return BoundActivation<T>({.act = {}, .dropout = dropout});
}

template <class T>
void softmax_row(const ops::SoftmaxArgs& args, const T* in, T* out, std::int64_t n) {
  const double sign = args.negated ? -1 : 1;
  std::int64_t place = 0;
  for (std::int64_t j = 1; j < n; ++j) {
    place = sign * real(in, j) > sign * real(in, place) ? j : place;
  }
  const double largest = sign * real(in, place);
  // Without the largest's own, which is 1 and would swallow the others.
  double rest = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    rest += j == place ? largest - largest : std::exp(sign * real(in, j) - largest);
  }
  const double log_sum = std::log1p(rest), sum = 1 + rest;
  for (std::int64_t j = 0; j < n; ++j) {
    const double z = sign * real(in, j) - largest;
    out[j] = static_cast<T>(args.log ? z - log_sum : std::exp(z) / sum);
  }
}

template <class T>
struct SoftmaxRow {
  std::vector<T> y, dy;
};

}  // namespace

void softmax(In x, Out y, const ops::SoftmaxArgs& args) {
  with_floating("softmax", x->dtype(), [&]<class T>(T) {
    const std::int64_t n = x->shape().last();
    const auto mask = mask_of<T>(args.dropout);
    for_each_row<NoRoom>(n == 0 ? 0 : x->numel() / n, n, [&](std::int64_t row, NoRoom&) {
      T* const out = y->raw<T>() + row * n;
      softmax_row(args, x->raw<T>() + row * n, out, n);
      if (args.drops()) {
        mask.forward(row * n, out, out, n);
      }
    });
  });
}

void softmax_backward(In kept, In dy, Out dx, const ops::SoftmaxArgs& args) {
  with_floating("softmax_backward", kept->dtype(), [&]<class T>(T) {
    const std::int64_t n = kept->shape().last();
    const double sign = args.negated ? -1 : 1;
    const auto mask = mask_of<T>(args.dropout);
    const std::int64_t rows = n == 0 ? 0 : kept->numel() / n;
    for_each_row<SoftmaxRow<T>>(rows, n, [&](std::int64_t row, SoftmaxRow<T>& room) {
      const T* values = kept->raw<T>() + row * n;
      const T* grads = dy->raw<T>() + row * n;
      if (args.drops()) {
        room.y.resize(static_cast<std::size_t>(n));
        room.dy.resize(static_cast<std::size_t>(n));
        softmax_row(args, values, room.y.data(), n);
        mask.forward(row * n, grads, room.dy.data(), n);
        values = room.y.data();
        grads = room.dy.data();
      }
      double sum = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        sum += args.log ? real(grads, j) : real(grads, j) * real(values, j);
      }
      for (std::int64_t j = 0; j < n; ++j) {
        dx->raw<T>()[row * n + j] =
            static_cast<T>(sign * (args.log ? real(grads, j) - std::exp(real(values, j)) * sum
                                            : real(values, j) * (real(grads, j) - sum)));
      }
    });
  });
}

namespace {

// A row of a norm: n = (x - center) * inverse, z = n * weight + bias.
template <class T>
struct NormRow {
  const T* x;
  const T* weights;  // or null: 1
  const T* biases;   // or null: 0
  double center, inverse;

  double weight(std::int64_t j) const { return weights == nullptr ? 1.0 : real(weights, j); }
  double normal(std::int64_t j) const { return (real(x, j) - center) * inverse; }
  double z(std::int64_t j) const {
    return normal(j) * weight(j) + (biases == nullptr ? 0.0 : real(biases, j));
  }
  void put_z(T* to, std::int64_t n) const {
    for (std::int64_t j = 0; j < n; ++j) {
      to[j] = static_cast<T>(z(j));
    }
  }
};

// The way back through y = dropout(act(z)), whatever the derivative is had from.
template <class T>
class TailGradient {
 public:
  explicit TailGradient(const ops::ActivationArgs& tail)
      : alone_{.act = tail.act, .dropout = {}},
        mask_{.act = {}, .dropout = tail.dropout},
        act_(alone_),
        dropout_(mask_) {}
  TailGradient(const TailGradient&) = delete;

  bool needs_z() const { return alone_.act.has_value(); }
  /// Of n elements of which the first is number `begin`. z is overwritten.
  void operator()(std::int64_t begin, T* z, const T* dy, T* dz, std::int64_t n) const {
    if (alone_.act) {
      if (!math::needs_input(*alone_.act)) {
        act_.forward(0, z, z, n);
      }
      act_.backward(0, z, dy, dz, n);
      dy = dz;
    }
    dropout_.forward(begin, dy, dz, n);  // last, for what is dropped is 0 whatever the slope is
  }

 private:
  ops::ActivationArgs alone_, mask_;
  BoundActivation<T> act_, dropout_;
};

template <class T>
struct ZRow {
  std::vector<T> z;
};

}  // namespace

void norm_forward(In x, In weight, In bias, Out y, Out mean, Out rstd, const ops::NormArgs& args) {
  with_floating("norm_forward", x->dtype(), [&]<class T>(T) {
    const std::int64_t rows = rstd->numel(), n = rows == 0 ? 0 : x->numel() / rows;
    const BoundActivation<T> tail(args.tail);
    for_each_row<NoRoom>(rows, n, [&](std::int64_t row, NoRoom&) {
      NormRow<T> of{x->raw<T>() + row * n, raw_or_null<T>(weight), raw_or_null<T>(bias), 0, 1};
      if (mean->defined()) {
        for (std::int64_t j = 0; j < n; ++j) {
          of.center += real(of.x, j);
        }
        of.center /= static_cast<double>(n);
        mean->raw<T>()[row] = static_cast<T>(of.center);
      }
      double squares = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        squares += (real(of.x, j) - of.center) * (real(of.x, j) - of.center);
      }
      of.inverse = 1 / std::sqrt(squares / static_cast<double>(n) + args.eps);
      rstd->raw<T>()[row] = static_cast<T>(of.inverse);
      T* const out = y->raw<T>() + row * n;
      of.put_z(out, n);
      if (!tail.is_identity()) {
        tail.forward(row * n, out, out, n);
      }
    });
  });
}

void norm_backward(In x, In weight, In bias, In mean, In rstd, In dy, Out dx, InOut dw, InOut db,
                   const ops::ActivationArgs& tail, const ops::WeightGradientFlags& flags) {
  with_floating("norm_backward", x->dtype(), [&]<class T>(T) {
    const std::int64_t rows = rstd->numel(), n = rows == 0 ? 0 : x->numel() / rows;
    const auto row_of = [&](std::int64_t row) {
      return NormRow<T>{x->raw<T>() + row * n, raw_or_null<T>(weight), raw_or_null<T>(bias),
                        mean->defined() ? real(mean->raw<T>(), row) : 0.0,
                        real(rstd->raw<T>(), row)};
    };
    Tensor dz = *dy;
    if (!BoundActivation<T>(tail).is_identity()) {
      dz = Tensor::empty(dy->shape(), dy->dtype());
      T* const to = dz.raw<T>();
      const TailGradient<T> through(tail);
      for_each_row<ZRow<T>>(rows, n, [&](std::int64_t row, ZRow<T>& room) {
        if (through.needs_z()) {
          room.z.resize(static_cast<std::size_t>(n));
          row_of(row).put_z(room.z.data(), n);
        }
        through(row * n, room.z.data(), dy->raw<T>() + row * n, to + row * n, n);
      });
    }
    const T* const grads = dz.raw<T>();
    if (dx->defined()) {
      for_each_row<NoRoom>(rows, n, [&](std::int64_t row, NoRoom&) {
        const NormRow<T> of = row_of(row);
        double of_g = 0, of_g_n = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const double g = real(grads, row * n + j) * of.weight(j);
          of_g += g;
          of_g_n += g * of.normal(j);
        }
        of_g = mean->defined() ? of_g / static_cast<double>(n) : 0;
        of_g_n /= static_cast<double>(n);
        for (std::int64_t j = 0; j < n; ++j) {
          const double g = real(grads, row * n + j) * of.weight(j);
          dx->raw<T>()[row * n + j] =
              static_cast<T>(of.inverse * (g - of_g - of.normal(j) * of_g_n));
        }
      });
    }
    // Columns are independent: each thread goes through all rows of its own.
    const std::int64_t grain =
        std::max<std::int64_t>(16, parallel_grain / std::max<std::int64_t>(rows, 1));
    const std::int64_t columns = dw->defined() ? dw->numel() : db->defined() ? db->numel() : 0;
    parallel_shares(columns, grain, [&](std::int64_t begin, std::int64_t end) {
      const auto count = static_cast<std::size_t>(end - begin);
      std::vector<double> of_weight(count), of_bias(count);
      for (std::int64_t row = 0; row < rows; ++row) {
        const NormRow<T> of = row_of(row);
        for (std::size_t k = 0; k < count; ++k) {
          const std::int64_t j = begin + static_cast<std::int64_t>(k);
          of_weight[k] += real(grads, row * n + j) * of.normal(j);
          of_bias[k] += real(grads, row * n + j);
        }
      }
      const auto put = [&](const InOut& gradient, const std::vector<double>& sums, bool add) {
        for (std::size_t k = 0; gradient->defined() && k < count; ++k) {
          T& to = gradient->raw<T>()[begin + static_cast<std::int64_t>(k)];
          to = static_cast<T>(sums[k] + (add ? static_cast<double>(to) : 0.0));
        }
      };
      put(dw, of_weight, flags.accumulate_weight);
      put(db, of_bias, flags.accumulate_bias);
    });
  });
}

namespace {

template <class T>
struct GateRow {
  std::vector<T> value;
  std::vector<T> slope;
};

// A gate without dropout: the activation alone, whose derivative is had from z or y as it needs.
template <class T>
void compute_gate(const ops::ActivationArgs& args, const T* z, std::int64_t n, GateRow<T>& gate,
                  bool wants_slope) {
  const ops::ActivationArgs alone{args.act, {}, args.stored};
  const BoundActivation<T> bound(alone);
  gate.value.resize(static_cast<std::size_t>(n));
  bound.forward(0, z, gate.value.data(), n);
  if (wants_slope) {
    gate.slope.assign(static_cast<std::size_t>(n), T(1));
    const bool from_input =
        std::visit([]<class A>(const A&) { return math::derives_from_input<A>; }, *args.act);
    bound.backward(0, from_input ? z : gate.value.data(), gate.slope.data(), gate.slope.data(), n);
  }
}

template <class T>
void mask_row(const ops::ActivationArgs& args, std::int64_t begin, T* x, std::int64_t n) {
  mask_of<T>(args.dropout).forward(begin, x, x, n);
}

}  // namespace

void glu_forward(In x, Out y, const ops::ActivationArgs& args) {
  with_floating("glu_forward", x->dtype(), [&]<class T>(T) {
    const std::int64_t n = y->shape().last();
    for_each_row<GateRow<T>>(y->shape().rows(), n, [&](std::int64_t row, GateRow<T>& gate) {
      const T* a = x->raw<T>() + row * 2 * n;
      T* out = y->raw<T>() + row * n;
      compute_gate(args, a + n, n, gate, false);
      for (std::int64_t j = 0; j < n; ++j) {
        out[j] = a[j] * gate.value[static_cast<std::size_t>(j)];
      }
      mask_row(args, row * n, out, n);
    });
  });
}

void glu_backward(In x, In dy, Out dx, const ops::ActivationArgs& args) {
  with_floating("glu_backward", x->dtype(), [&]<class T>(T) {
    const std::int64_t n = dy->shape().last();
    for_each_row<GateRow<T>>(dy->shape().rows(), n, [&](std::int64_t row, GateRow<T>& gate) {
      const T* a = x->raw<T>() + row * 2 * n;
      const T* grad = dy->raw<T>() + row * n;
      T* out = dx->raw<T>() + row * 2 * n;
      compute_gate(args, a + n, n, gate, true);
      for (std::size_t j = 0; j < gate.value.size(); ++j) {
        const auto at = static_cast<std::int64_t>(j);
        out[n + at] = gate.slope[j] == 0 ? T(0) : grad[at] * a[at] * gate.slope[j];
        out[at] = grad[at] * gate.value[j];
      }
      // Last, for what is dropped is 0 whatever the gate is.
      mask_row(args, row * n, out, n);
      mask_row(args, row * n, out + n, n);
    });
  });
}

}  // namespace sinter::cpu
