// Small square matrices transposed in registers.
#pragma once

#include <sinter/kernels/math/simd.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

// 32 bytes, even where registers are wider: shuffles of 64 bytes are not faster.
constexpr int block_bytes = math::simd::register_bytes < 32 ? math::simd::register_bytes : 32;
template <class T>
constexpr int block = block_bytes / static_cast<int>(sizeof(T));
template <class T>
using Block = math::Vector<T, block_bytes>;

SINTER_HOST_INLINE void transpose(math::Vector<double, 16> (&r)[2]) {
  const auto first = __builtin_shufflevector(r[0], r[1], 0, 2);
  r[1] = __builtin_shufflevector(r[0], r[1], 1, 3);
  r[0] = first;
}

SINTER_HOST_INLINE void transpose(math::Vector<float, 16> (&r)[4]) {
  const auto left_top = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
  const auto right_top = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const auto left_bottom = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const auto right_bottom = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(left_top, left_bottom, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(left_top, left_bottom, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(right_top, right_bottom, 0, 1, 4, 5);
  r[3] = __builtin_shufflevector(right_top, right_bottom, 2, 3, 6, 7);
}

SINTER_HOST_INLINE void transpose(math::Vector<double, 32> (&r)[4]) {
  // Within halves of 16 bytes first, which is all that most shuffles can, then the halves.
  math::Vector<double, 32> s[4];
  for (int i = 0; i < 4; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 4, 2, 6);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 4, 5);
    r[i + 2] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 6, 7);
  }
}

SINTER_HOST_INLINE void transpose(math::Vector<float, 32> (&r)[8]) {
  math::Vector<float, 32> s[8];
  for (int i = 0; i < 8; i += 4) {
    const auto left_top = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    const auto right_top = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    const auto left_bottom = __builtin_shufflevector(r[i + 2], r[i + 3], 0, 8, 1, 9, 4, 12, 5, 13);
    const auto right_bottom =
        __builtin_shufflevector(r[i + 2], r[i + 3], 2, 10, 3, 11, 6, 14, 7, 15);
    s[i] = __builtin_shufflevector(left_top, left_bottom, 0, 1, 8, 9, 4, 5, 12, 13);
    s[i + 1] = __builtin_shufflevector(left_top, left_bottom, 2, 3, 10, 11, 6, 7, 14, 15);
    s[i + 2] = __builtin_shufflevector(right_top, right_bottom, 0, 1, 8, 9, 4, 5, 12, 13);
    s[i + 3] = __builtin_shufflevector(right_top, right_bottom, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shufflevector(s[i], s[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(s[i], s[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

}  // namespace
}  // namespace sinter::cpu::SINTER_CPU_PATH
