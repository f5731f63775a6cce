// Sums in a fixed order, and argmax along the last dimension.
#include <algorithm>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/sums.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/kernels/strides.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// [rows, n] to [n]: the gradient of a bias. Columns are independent, so they are what is shared
// out.
template <class T>
void column_sum(const T* x, std::int64_t rows, std::int64_t n, bool accumulate, T* y) {
  const auto& table = kernels<T>();
  const std::int64_t grain =
      std::max<std::int64_t>(64, 4 * parallel_grain / std::max<std::int64_t>(rows, 1));
  parallel_shares(n, grain, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t width = 256;
    for (std::int64_t left = begin; left < end; left += width) {
      const std::int64_t count = std::min(width, end - left);
      T total[width] = {};
      for (std::int64_t top = 0; top < rows; top += rows_in_group) {
        T partial[width] = {};
        table.add_rows(x + top * n + left, std::min(rows_in_group, rows - top), count, n, partial);
        table.add_rows(partial, 1, count, width, total);
      }
      if (!accumulate) {
        std::fill_n(y + left, count, T(0));
      }
      table.add_rows(total, 1, count, width, y + left);
    }
  });
}

}  // namespace

void sum_to(In x, InOut y, bool accumulate) {
  with_floating("sum_to", x->dtype(), [&]<class T>(T) {
    const T* in = x->raw<T>();
    T* out = y->raw<T>();
    if (y->numel() == 1) {
      const double start = accumulate ? static_cast<double>(out[0]) : 0.0;
      const double sum =
          sum_of_terms(x->numel(), [in](std::int64_t i) { return static_cast<double>(in[i]); });
      out[0] = static_cast<T>(start + sum);
      return;
    }
    if (keeps_last_dimensions(y->shape(), x->shape())) {
      const std::int64_t n = y->numel();
      column_sum(in, n == 0 ? 0 : x->numel() / n, n, accumulate, out);
      return;
    }
    std::vector<double> sums(static_cast<std::size_t>(y->numel()));
    const Broadcast to_y(y->shape(), x->shape());
    const std::int64_t columns = x->shape().last();
    const std::int64_t step = to_y.last_stride();
    for (std::int64_t row = 0; row < (columns == 0 ? 0 : x->numel() / columns); ++row) {
      const std::int64_t at = to_y.offset_of_row(row);
      for (std::int64_t j = 0; j < columns; ++j) {
        sums[static_cast<std::size_t>(at + j * step)] += static_cast<double>(in[row * columns + j]);
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      out[i] = static_cast<T>(accumulate ? static_cast<double>(out[i]) + sums[i] : sums[i]);
    }
  });
}

void argmax(In x, Out y) {
  with_floating("argmax", x->dtype(), [&]<class T>(T) {
    const std::int64_t n = x->shape().last();
    for (std::int64_t row = 0; row < (n == 0 ? 0 : x->numel() / n); ++row) {
      const T* in = x->raw<T>() + row * n;
      std::int64_t best = 0;
      for (std::int64_t j = 1; j < n; ++j) {
        if (!(in[j] <= in[best]) && in[best] == in[best]) {  // the first NaN wins and stays
          best = j;
        }
      }
      y->raw<std::int64_t>()[row] = best;
    }
  });
}

}  // namespace sinter::cpu
