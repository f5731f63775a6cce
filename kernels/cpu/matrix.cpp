// Matrix products, cut into pieces such that no result depends on how many there are.
#include <algorithm>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

/// How the result is shared out: in blocks of whole rows, or of whole columns.
struct Cut {
  bool by_rows;
  std::int64_t count;   // of the pieces
  std::int64_t length;  // rows or columns in all
  std::int64_t unit;

  /// The first row or column of a piece. Pieces differ by at most one unit.
  std::int64_t begin(std::int64_t piece) const {
    const std::int64_t units = (length + unit - 1) / unit;
    return std::min(length, piece * units / count * unit);
  }
};

// As many pieces as there are threads, none too small to be worth waking one. A piece packs one
// operand and reads the other, both whole but for the one that is cut. So rows are cut where a has
// many more of them than b has columns, and in forward products x w^T of a batch smaller than the
// layer, whose x is what gets packed; else columns. Any cut gives the same elements: each is its
// terms added in order, unless there are but a few rows (kernels/cpu/isa/few_rows.h), and so few no
// piece has.
Cut cut(bool is_forward, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr double worth_a_thread = 7e5;
  constexpr std::int64_t fewest_rows = 32;
  constexpr std::int64_t fewest_columns = 96;
  const double multiply_adds =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t wanted = std::min<std::int64_t>(
      num_threads(), static_cast<std::int64_t>(multiply_adds / worth_a_thread));
  const std::int64_t by_rows =
      std::clamp<std::int64_t>(m / fewest_rows, 1, std::max<std::int64_t>(1, wanted));
  const std::int64_t by_columns =
      std::clamp<std::int64_t>(n / fewest_columns, 1, std::max<std::int64_t>(1, wanted));
  const bool rows_first = m > 4 * n || (is_forward && m <= n);
  if (by_rows > by_columns || (by_rows == by_columns && rows_first)) {
    return {true, by_rows, m, 16};
  }
  return {false, by_columns, n, 48};
}

/// c = a b in pieces; after each, finish(row, rows, column, columns) on the thread that made it.
template <class T, class Finish>
void product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
             const T* a, const T* b, bool accumulate, T* c, Finish finish) {
  if (m == 0 || n == 0) {
    return;
  }
  const auto& gemm = kernels<T>().gemm;
  const std::int64_t lda = transpose_a ? m : k;
  const std::int64_t ldb = transpose_b ? k : n;
  const Cut pieces = cut(!transpose_a && transpose_b, m, n, k);
  parallel_pieces(pieces.count, [&](std::int64_t piece) {
    const std::int64_t begin = pieces.begin(piece);
    const std::int64_t size = pieces.begin(piece + 1) - begin;
    if (pieces.by_rows) {
      gemm(transpose_a, transpose_b, size, n, k, a + (transpose_a ? begin : begin * k), lda, b, ldb,
           accumulate, c + begin * n, n);
      finish(begin, size, std::int64_t{0}, n);
    } else {
      gemm(transpose_a, transpose_b, m, size, k, a, lda, b + (transpose_b ? begin * k : begin), ldb,
           accumulate, c + begin, n);
      finish(std::int64_t{0}, m, begin, size);
    }
  });
}

}  // namespace

void matmul(In a, In b, InOut c, const ops::MatmulArgs& args) {
  with_floating("matmul", c->dtype(), [&]<class T>(T) {
    product(args.transpose_a, args.transpose_b, c->size(0), c->size(1),
            a->size(args.transpose_a ? 0 : 1), a->raw<T>(), b->raw<T>(), args.accumulate,
            c->raw<T>(), [](auto...) {});
  });
}

void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args) {
  with_floating("linear", x->dtype(), [&]<class T>(T) {
    const auto& table = kernels<T>();
    const BoundActivation<T> act(args);
    const std::int64_t n = weight->size(0);
    const T* bias_values = bias->defined() ? bias->raw<T>() : nullptr;
    T* before = z->defined() ? z->raw<T>() : y->raw<T>();
    T* after = y->raw<T>();
    const bool has_pass = z->defined() || !act.is_identity();
    product(false, true, x->shape().rows(), n, weight->size(1), x->raw<T>(), weight->raw<T>(),
            false, before,
            [&](std::int64_t top, std::int64_t rows, std::int64_t left, std::int64_t columns) {
              // Rows that lie side by side are one run: masks are dear to draw in small ones.
              const std::int64_t group = columns == n ? std::max<std::int64_t>(1, run / n) : 1;
              for (std::int64_t row = top; row < top + rows; row += group) {
                const std::int64_t count = std::min(group, top + rows - row);
                const std::int64_t at = row * n + left;
                for (std::int64_t i = 0; bias_values != nullptr && i < count; ++i) {
                  table.add_bias(bias_values + left, before + at + i * n, columns);
                }
                if (has_pass) {
                  act.forward(at, before + at, after + at, count * columns);
                }
              }
            });
  });
}

void linear_backward_input(In dy, In weight, In kept, Out dx, const ops::ActivationArgs& args) {
  matmul(dy, weight, *dx, {});
  if (kept->defined()) {
    activation_backward(kept, *dx, dx, args);
  }
}

void weight_gradients(Ins dy, Ins x, InOuts dw, InOuts db,
                      const std::vector<ops::WeightGradientFlags>& flags) {
  for (std::size_t i = 0; i < dy.size(); ++i) {
    if (dw[i].defined()) {
      matmul(dy[i], x[i], dw[i], {.transpose_a = true, .accumulate = flags[i].accumulate_weight});
    }
    if (db[i].defined()) {
      sum_to(dy[i], db[i], flags[i].accumulate_bias);
    }
  }
}

}  // namespace sinter::cpu
