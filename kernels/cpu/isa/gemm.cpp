// Matrix products on the calling thread. The right operand is packed into panels, a few vectors of
// columns each; elements of the left one are mostly read where they lie, for one element is
// multiplied with a whole row of a panel. Which operand of the caller's is the left one is a
// choice, since c^T = b^T a^T: the one whose packing costs less goes right.
#include <type_traits>

#include <sinter/kernels/cpu/isa/few_rows.h>
#include <sinter/kernels/cpu/isa/pack.h>
#include <sinter/kernels/cpu/isa/path.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

/// What is packed at once: half of a second-level cache of 1 MiB. Blocks of the depth follow from k
/// alone, and so does the order in which an element's terms are added.
struct Blocks {
  std::int64_t depth;
  std::int64_t columns;
};

template <class T>
Blocks blocks(std::int64_t n, std::int64_t k) {
  constexpr std::int64_t most_depth = 512;
  constexpr std::int64_t most_bytes = 512 << 10;
  if (k == 0) {
    return {1, n};
  }
  const std::int64_t depth = quotient_up(k, quotient_up(k, most_depth));
  const std::int64_t most = most_bytes / (depth * simd::register_bytes);
  const std::int64_t vectors = quotient_up(n, width<T>);
  // Even blocks, of whole panels.
  std::int64_t in_block = quotient_up(vectors, quotient_up(vectors, most));
  in_block = quotient_up(in_block, tile_vectors) * tile_vectors;
  return {depth, in_block * width<T>};
}

/// `Rows` rows of c, from the packed columns.
template <class T, int Rows>
void row_of_tiles(std::int64_t n, std::int64_t k, const Operand<T>& a, const T* panels,
                  const Result<T>& c) {
  for_panels<T>(n, [&](std::int64_t left, std::int64_t columns, int vectors) {
    const auto run = vectors == 3   ? tile<T, Rows, 3>
                     : vectors == 2 ? tile<T, Rows, 2>
                                    : tile<T, Rows, 1>;
    run(k, a, panels + left * k, columns, c.moved(0, left));
  });
}

/// All rows of c; `room` is for pack_group.
template <class T>
void rows_of_tiles(std::int64_t m, std::int64_t n, std::int64_t k, const Operand<T>& a,
                   const T* panels, T* room, const Result<T>& c) {
  // Rows across memory use a part of each line that they touch.
  const bool pays = a.step == 1 && a.depth_step != 1 && n > tile_vectors * width<T>;
  for (std::int64_t i = 0; i < m;) {
    const std::int64_t place = i % group_rows<T>;
    const bool packed = pays && i - place + group_rows<T> <= m;
    if (packed && place == 0) {
      pack_group(a.moved(i, 0), k, room);
    }
    const std::int64_t left = m - i;
    const std::int64_t rows = left >= tile_rows ? tile_rows : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    const auto run = rows == tile_rows ? row_of_tiles<T, tile_rows>
                     : rows == 4       ? row_of_tiles<T, 4>
                     : rows == 2       ? row_of_tiles<T, 2>
                                       : row_of_tiles<T, 1>;
    run(n, k, packed ? Operand<T>{room + place * k, 1, tile_rows} : a.moved(i, 0), panels,
        c.moved(i, 0));
    i += rows;
  }
}

template <class T>
void product(std::int64_t m, std::int64_t n, std::int64_t k, const Operand<T>& a,
             const Operand<T>& b, const Result<T>& c) {
  const Blocks block = blocks<T>(n, k);
  const std::int64_t room = (block.columns + group_rows<T>)*block.depth;
  T* const panels = static_cast<T*>(packing_room(room * static_cast<std::int64_t>(sizeof(T))));
  for (std::int64_t left = 0; left < n; left += block.columns) {
    const std::int64_t columns = n - left < block.columns ? n - left : block.columns;
    for (std::int64_t first = 0; first == 0 || first < k; first += block.depth) {
      const std::int64_t depth = k - first < block.depth ? k - first : block.depth;
      pack_panels(columns, depth, b.moved(left, first), panels);
      Result<T> to = c.moved(0, left);
      to.add = c.add || first > 0;
      rows_of_tiles(m, columns, depth, a.moved(0, first), panels,
                    panels + block.columns * block.depth, to);
    }
  }
}

/// Whether b is to be the left operand: by what packing costs, and tiles of c that lie transposed.
/// Transposing an element costs four times as much as copying it.
template <class T>
bool is_turned(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t straight = n * k * (transpose_b ? 4 : 1);
  const std::int64_t turned = m * k * (transpose_a ? 1 : 4) + m * n * 4;
  return turned < straight && m >= 2 * width<T>;  // of narrower ones lanes would be idle
}

}  // namespace

template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c,
          std::int64_t ldc) {
  if (m == 0 || n == 0) {
    return;
  }
  const Operand<T> left = transpose_a ? Operand<T>{a, 1, lda} : Operand<T>{a, lda, 1};
  const Operand<T> right = transpose_b ? Operand<T>{b, ldb, 1} : Operand<T>{b, 1, ldb};
  // Nobody waits for a step in float64 on a few items: these loops would be a tenth of the library.
  if constexpr (std::is_same_v<T, float>) {
    const bool is_column = n == 1 && ldc == 1;  // which lies in memory as a row does
    if (is_column ? few_rows(n, m, k, right, left, Result<T>{c, m, false, accumulate})
                  : few_rows(m, n, k, left, right, Result<T>{c, ldc, false, accumulate})) {
      return;
    }
  }
  if (is_turned<T>(transpose_a, transpose_b, m, n, k)) {
    product(n, m, k, right, left, Result<T>{c, ldc, true, accumulate});
  } else {
    product(m, n, k, left, right, Result<T>{c, ldc, false, accumulate});
  }
}

template void gemm<float>(bool, bool, std::int64_t, std::int64_t, std::int64_t, const float*,
                          std::int64_t, const float*, std::int64_t, bool, float*, std::int64_t);
template void gemm<double>(bool, bool, std::int64_t, std::int64_t, std::int64_t, const double*,
                           std::int64_t, const double*, std::int64_t, bool, double*, std::int64_t);

}  // namespace sinter::cpu::SINTER_CPU_PATH
