// Which tiles a product is cut into: all that is to be tuned by timing is here.
#pragma once

#include <cstdint>
#include <type_traits>

#include <sinter/kernels/cuda/tile/limits.h>
#include <sinter/kernels/cuda/tile/problem.cuh>
#include <sinter/kernels/cuda/tile/product.cuh>

namespace sinter::cuda::tile {

// <16 rows, 8 columns, warps side by side, warps along k, granules in flight>. A warp needs ten
// cycles from one instruction to the next, so many warps with few of them each do best.
using SmallTile = Shape<1, 2, 1, 16, 3>;  // 16 x 16
using ShortTile = Shape<1, 2, 1, 16, 1>;  // 16 x 16, for few k
using LargeTile = Shape<2, 4, 1, 12, 3>;  // 32 x 32
using WideTile = Shape<2, 4, 2, 4, 2>;    // 32 x 64
/// The head's: all classes side by side.
template <int classes>
using HeadTile = Shape<1, classes / 8, 1, 16, classes <= 16 ? 2 : 1>;
/// Columns of its input's gradient that a block of it takes at least.
inline constexpr int head_columns = 64;

/// The grid for one product's tiles.
template <class S>
dim3 tiles(int lines_a, int lines_b) {
  return dim3(static_cast<unsigned>(divided_up(lines_b, S::n)),
              static_cast<unsigned>(divided_up(lines_a, S::m)));
}

/// Calls f with the shape of tile for a product that is not summed up for a gradient.
template <class F>
void with_tile(int lines_a, int lines_b, int depth, int multiprocessors, F f) {
  const std::int64_t small =
      std::int64_t{divided_up(lines_a, SmallTile::m)} * divided_up(lines_b, SmallTile::n);
  if (2 * small > 3 * multiprocessors) {
    f(std::type_identity<LargeTile>{});
  } else if (depth > ShortTile::in_flight * ShortTile::warps_k * granule) {
    f(std::type_identity<SmallTile>{});
  } else {
    f(std::type_identity<ShortTile>{});
  }
}

/// For weights' gradients: 32 x 32 tiles while they are one for each multiprocessor.
constexpr bool prefers_square_tiles(std::int64_t blocks_of_square, int multiprocessors) {
  return blocks_of_square <= multiprocessors;
}

}  // namespace sinter::cuda::tile
