// What the tile kernels are for, as far as the host decides it.
#pragma once

#include <cstdint>

namespace sinter::cuda::tile {

/// A product with more multiply-adds than this waits for the second-level cache here, since each
/// block loads its tile's operands anew: 32 x 32 tiles of 1.2e8 move 30 MB, which takes an H200 5
/// us. cuBLASLt is faster from about twice as many on.
inline constexpr double most_multiply_adds = 1.2e8;

/// And the longest side: one block adds up all of a tile's k, however many there are.
inline constexpr std::int64_t longest_side = 8192;

/// Layers of one launch that computes weights' gradients.
inline constexpr int most_layers = 16;

/// Of the head's kernel: its classes lie side by side in one tile, and each of its blocks reads all
/// labels where it has to know the mean's weight.
inline constexpr std::int64_t most_classes = 32;
inline constexpr std::int64_t most_head_rows = 4096;

}  // namespace sinter::cuda::tile
