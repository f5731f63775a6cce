// Element-wise ops: activations with dropout, dropout alone, arithmetic with broadcasting.
#include <algorithm>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/kernels/strides.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {

void activation_forward(In x, Out y, const ops::ActivationArgs& args) {
  with_floating("activation", x->dtype(), [&]<class T>(T) {
    const BoundActivation<T> act(args);
    const T* in = x->raw<T>();
    T* out = y->raw<T>();
    parallel_shares(x->numel(), parallel_grain, [&](std::int64_t begin, std::int64_t end) {
      act.forward(begin, in + begin, out + begin, end - begin);
    });
  });
}

void activation_backward(In kept, In dy, Out dx, const ops::ActivationArgs& args) {
  with_floating("activation", dy->dtype(), [&]<class T>(T) {
    const BoundActivation<T> act(args);
    const T* values = kept->raw<T>();
    const T* in = dy->raw<T>();
    T* out = dx->raw<T>();
    parallel_shares(dy->numel(), parallel_grain, [&](std::int64_t begin, std::int64_t end) {
      act.backward(begin, values + begin, in + begin, out + begin, end - begin);
    });
  });
}

void activation_backward_bias(In kept, In dy, Out dx, InOut bias_gradient,
                              const ops::ActivationArgs& args, bool accumulate) {
  with_floating("activation", dy->dtype(), [&]<class T>(T) {
    const auto& table = kernels<T>();
    const BoundActivation<T> act(args);
    const std::int64_t n = bias_gradient->numel();
    const std::int64_t rows = n == 0 ? 0 : dy->numel() / n;
    // Pieces are groups of whole rows, or of parts of them where rows are long.
    const std::int64_t width = std::clamp<std::int64_t>(n, 1, parallel_grain);
    const std::int64_t groups = (rows + rows_in_group - 1) / rows_in_group;
    const std::int64_t groups_in_piece =
        std::max<std::int64_t>(1, parallel_grain / (rows_in_group * width));
    const std::int64_t height = groups_in_piece * rows_in_group;
    const std::int64_t across = (n + width - 1) / width;
    std::vector<T> sums(static_cast<std::size_t>(groups * n));
    parallel_pieces((rows + height - 1) / height * across, [&](std::int64_t piece) {
      const std::int64_t top = piece / across * height;
      const std::int64_t bottom = std::min(rows, top + height);
      const std::int64_t left = piece % across * width;
      const std::int64_t columns = std::min(width, n - left);
      // Rows that lie side by side are one run: masks are dear to draw in small ones.
      const std::int64_t most =
          columns == n ? std::clamp<std::int64_t>(run / n, 1, rows_in_group) : 1;
      for (std::int64_t row = top, count = 0; row < bottom; row += count) {
        const std::int64_t left_in_group = rows_in_group - row % rows_in_group;
        count = std::min({most, left_in_group, bottom - row});
        const std::int64_t at = row * n + left;
        act.backward(at, kept->raw<T>() + at, dy->raw<T>() + at, dx->raw<T>() + at,
                     count * columns);
        table.add_rows(dx->raw<T>() + at, count, columns, n,
                       sums.data() + row / rows_in_group * n + left);
      }
    });
    std::vector<T> total(static_cast<std::size_t>(n));
    table.add_rows(sums.data(), groups, n, n, total.data());
    if (!accumulate) {
      std::fill_n(bias_gradient->raw<T>(), n, T(0));
    }
    table.add_rows(total.data(), 1, n, n, bias_gradient->raw<T>());
  });
}

void dropout(In x, Out y, const ops::DropoutArgs& args) {
  activation_forward(x, y, {.act = {}, .dropout = args});
}

void cast(In x, Out y) {
  with_floating("cast", x->dtype(), [&]<class From>(From) {
    with_floating("cast", y->dtype(), [&]<class To>(To) {
      parallel_shares(x->numel(), parallel_grain, [&](std::int64_t begin, std::int64_t end) {
        std::transform(x->raw<From>() + begin, x->raw<From>() + end, y->raw<To>() + begin,
                       [](From value) { return static_cast<To>(value); });
      });
    });
  });
}

namespace {

template <class F>
void binary(const char* op, In a, In b, Out y, F f) {
  with_floating(op, y->dtype(), [&]<class T>(T) {
    const T* left = a->raw<T>();
    const T* right = b->raw<T>();
    T* out = y->raw<T>();
    if (a->shape() == b->shape()) {
      parallel_shares(y->numel(), parallel_grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          out[i] = f(left[i], right[i]);
        }
      });
      return;
    }
    const Broadcast to_a(a->shape(), y->shape());
    const Broadcast to_b(b->shape(), y->shape());
    const std::int64_t columns = y->shape().last();
    const std::int64_t step_a = to_a.last_stride();
    const std::int64_t step_b = to_b.last_stride();
    const std::int64_t rows = columns == 0 ? 0 : y->numel() / columns;
    const std::int64_t grain =
        std::max<std::int64_t>(1, parallel_grain / std::max<std::int64_t>(columns, 1));
    parallel_shares(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* p = left + to_a.offset_of_row(row);
        const T* q = right + to_b.offset_of_row(row);
        T* o = out + row * columns;
        for (std::int64_t j = 0; j < columns; ++j) {
          o[j] = f(p[j * step_a], q[j * step_b]);
        }
      }
    });
  });
}

}  // namespace

void add(In a, In b, Out y) {
  binary("add", a, b, y, [](auto p, auto q) { return p + q; });
}
void subtract(In a, In b, Out y) {
  binary("subtract", a, b, y, [](auto p, auto q) { return p - q; });
}
void multiply(In a, In b, Out y) {
  binary("multiply", a, b, y, [](auto p, auto q) { return p * q; });
}
void divide(In a, In b, Out y) {
  binary("divide", a, b, y, [](auto p, auto q) { return p / q; });
}

void affine(In x, Out y, double scale, double shift) {
  with_floating("affine", x->dtype(), [&]<class T>(T) {
    const T* in = x->raw<T>();
    T* out = y->raw<T>();
    const T a = static_cast<T>(scale);
    const T b = static_cast<T>(shift);
    parallel_shares(x->numel(), parallel_grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = in[i] * a + b;
      }
    });
  });
}

void accumulate(In x, InOut y) { add(*y, x, *y); }

}  // namespace sinter::cpu
