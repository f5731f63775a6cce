// The gradient of an embedding's weight.
#include <algorithm>
#include <vector>

#include <sinter/kernels/cpu/integers.h>
#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// The positions at which each of `rows` rows was asked for, in order: those of row r are
// positions[begin[r]] to positions[begin[r + 1]].
struct Uses {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> positions;

  Uses(const std::vector<std::int64_t>& indices, std::int64_t rows, std::int64_t padding_idx)
      : begin(static_cast<std::size_t>(rows) + 1) {
    const auto counts = [&](std::int64_t row) {
      return row >= 0 && row < rows && row != padding_idx;
    };
    for (const std::int64_t row : indices) {
      if (counts(row)) {
        ++begin[static_cast<std::size_t>(row) + 1];
      }
    }
    for (std::size_t row = 1; row < begin.size(); ++row) {
      begin[row] += begin[row - 1];
    }
    positions.resize(static_cast<std::size_t>(begin.back()));
    std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (counts(indices[i])) {
        std::int64_t& place = next[static_cast<std::size_t>(indices[i])];
        positions[static_cast<std::size_t>(place++)] = static_cast<std::int64_t>(i);
      }
    }
  }
};

}  // namespace

void embedding_backward(In dy, In indices, InOut dw, const ops::EmbeddingArgs& args) {
  with_floating("embedding_backward", dy->dtype(), [&]<class T>(T) {
    const std::int64_t rows = dw->size(0), width = dw->size(1);
    const Uses uses(read_integers(*indices), rows, args.padding_idx);
    const std::int64_t grain =
        std::max<std::int64_t>(1, parallel_grain / std::max<std::int64_t>(width, 1));
    parallel_shares(rows, grain, [&](std::int64_t first, std::int64_t last) {
      std::vector<double> sums(static_cast<std::size_t>(width));
      for (std::int64_t row = first; row < last; ++row) {
        std::ranges::fill(sums, 0.0);
        const auto r = static_cast<std::size_t>(row);
        for (std::int64_t k = uses.begin[r]; k < uses.begin[r + 1]; ++k) {
          const T* from = dy->raw<T>() + uses.positions[static_cast<std::size_t>(k)] * width;
          for (std::int64_t j = 0; j < width; ++j) {
            sums[static_cast<std::size_t>(j)] += static_cast<double>(from[j]);
          }
        }
        T* to = dw->raw<T>() + row * width;
        for (std::int64_t j = 0; j < width; ++j) {
          const double before = args.accumulate ? static_cast<double>(to[j]) : 0.0;
          to[j] = static_cast<T>(sums[static_cast<std::size_t>(j)] + before);
        }
      }
    });
  });
}

}  // namespace sinter::cpu
