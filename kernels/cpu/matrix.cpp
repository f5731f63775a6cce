// Matrix products, cut into pieces that do not depend on the number of threads.
#include <algorithm>
#include <bit>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

/// The rows or columns of the result that one piece computes.
struct Pieces {
  bool by_rows;
  std::int64_t count;
  std::int64_t size;  // rows or columns of a piece
};

// Each piece packs one operand whole, so pieces are few, and cut the longer side of the result,
// which belongs to the operand that is dearer to pack again.
Pieces cut(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t wanted = flops < 8e6 ? 1 : flops < 2e8 ? 2 : flops < 2e9 ? 4 : 16;
  const bool by_rows = m >= n;
  const std::int64_t length = by_rows ? m : n;
  constexpr std::int64_t register_tile = 48;  // a multiple of the widest of Eigen's tiles
  const std::int64_t each = (length + wanted - 1) / wanted;
  const std::int64_t size = (each + register_tile - 1) / register_tile * register_tile;
  return {by_rows, (length + size - 1) / size, size};
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
  const Pieces pieces = cut(m, n, k);
  parallel_pieces(pieces.count, [&](std::int64_t piece) {
    const std::int64_t begin = piece * pieces.size;
    if (pieces.by_rows) {
      const std::int64_t rows = std::min(pieces.size, m - begin);
      gemm(transpose_a, transpose_b, rows, n, k, a + (transpose_a ? begin : begin * k), lda, b, ldb,
           accumulate, c + begin * n, n);
      finish(begin, rows, std::int64_t{0}, n);
    } else {
      const std::int64_t columns = std::min(pieces.size, n - begin);
      gemm(transpose_a, transpose_b, m, columns, k, a, lda, b + (transpose_b ? begin * k : begin),
           ldb, accumulate, c + begin, n);
      finish(std::int64_t{0}, m, begin, columns);
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

}  // namespace sinter::cpu
