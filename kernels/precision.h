// How exactly float32 matrices are multiplied, for the whole process.
#pragma once

#include <cstdint>

namespace sinter {

/// What a product of float32 matrices may lose; as torch.set_float32_matmul_precision has it, but
/// with `high` as the default.
enum class MatmulPrecision : std::uint8_t {
  /// Every factor with all its bits.
  highest,
  /// On a GPU that has it (compute capability 8.0 and later) factors are rounded to TF32 and added
  /// up in float32: 10 bits of mantissa, as in float16, several times as fast. Elsewhere as
  /// `highest`.
  high
};

/// For all products from here on, on every device; those of a recorded Graph stay as they were, a
/// CapturedStep records anew. Products of other types are not concerned.
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();

}  // namespace sinter
