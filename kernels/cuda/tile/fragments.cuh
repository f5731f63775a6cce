// What one warp multiplies with: the fragments of mma.sync.m16n8k8 in TF32, loaded straight from
// global memory.
//
// A product is c[m, n] = sum over k of a[m, k] b[n, k]: `line` is a row of a or a column of b, and
// each operand lies in memory with k or with its lines side by side. The tensor cores do not mind
// which k or which line stands where in a fragment, so long as both operands agree. So a lane takes
// four neighbouring k of neighbouring lines: that is one load of 16 bytes in either layout, needs
// no staging in shared memory, and leaves each lane with neighbouring columns of c.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/unit.cuh>

namespace sinter::cuda::tile {

/// The k that a warp loads and multiplies at a time: four for each of four lanes.
inline constexpr int granule = 16;

/// An operand in memory. Offsets fit 32 bits: takes() sees to that.
struct Matrix {
  const float* data;
  int lines;
  int depth;   ///< number of k
  int stride;  ///< between neighbouring k or lines, whichever are not side by side
};

/// Which index is contiguous.
enum class Major : std::uint8_t { k, line };

/// TF32, rounded to nearest: its bits are the upper 19 of these, and the unit ignores the others.
/// The instruction for it takes two on sm_90, one of which looks for NaN: see quiet().
__device__ __forceinline__ std::uint32_t to_tf32(float x) { return __float_as_uint(x) + 0x1000u; }

/// A NaN whose bits to_tf32() carries into the sign, or cuts down to infinity, becomes one that
/// stays NaN. A GPU's own NaN, 0x7fffffff, is of the first kind.
__device__ __forceinline__ float quiet(float x) {
  return x == x ? x : __uint_as_float(0x7fc00000u);
}

template <int n>
__device__ __forceinline__ void quieten(float (&to)[n][4]) {
#pragma unroll
  for (auto& line : to) {
#pragma unroll
    for (float& x : line) {
      x = quiet(x);
    }
  }
}

/// Past the first-level cache, which does not see what other multiprocessors have just written.
template <int n>
__device__ __forceinline__ void load_vector(float (&to)[n], const float* from) {
  if constexpr (n == 4) {
    const float4 v = __ldcg(reinterpret_cast<const float4*>(from));
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
  } else {
    static_assert(n == 2);
    const float2 v = __ldcg(reinterpret_cast<const float2*>(from));
    to[0] = v.x;
    to[1] = v.y;
  }
}

/// Zeros. In a branch that is seldom taken the compiler is not to make them of instructions that
/// everybody executes.
template <int n>
__device__ __forceinline__ void clear(float (&to)[n][4]) {
#pragma unroll
  for (auto& line : to) {
#pragma unroll
    for (float& x : line) {
      asm volatile("mov.f32 %0, 0f00000000;" : "=f"(x));
    }
  }
}

/// One lane's share of an operand: `count` neighbouring lines. `vectors`: the stride and the
/// extents are multiples of 4 and the address is one of 16 bytes. Lines past the end repeat the
/// last ones: what comes of them is not stored. Addresses are made once, ahead of the loads.
template <int count, Major major, bool vectors>
class Operand {
 public:
  /// `k`: the lane's first.
  __device__ __forceinline__ Operand(const Matrix& matrix, int first, int k)
      : stride_(matrix.stride), left_(matrix.depth - k) {
    const int last = matrix.lines - 1;
    if constexpr (major == Major::k) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        at_[i] = matrix.data + (min(first + i, last) * matrix.stride + k);
      }
    } else if constexpr (vectors) {
      at_[0] = matrix.data + (k * matrix.stride + min(first, matrix.lines - count));
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        at_[i] = matrix.data + (k * matrix.stride + min(first + i, last));
      }
    }
    // Or the compiler would make them anew at each load, after a wait.
    if constexpr (major == Major::line || count <= 2) {
      asm volatile("" : "+r"(left_));
#pragma unroll
      for (const float*& at : at_) {
        asm volatile("" : "+l"(at));
      }
    }
  }

  /// The lines' elements of four neighbouring k, `ahead` of the lane's first. Those past the end
  /// stay what they are.
  __device__ __forceinline__ void load(float (&to)[count][4], int ahead) const {
    if constexpr (major == Major::k && vectors) {
      if (ahead < left_) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
          load_vector(to[i], at_[i] + ahead);
        }
      }
    } else if constexpr (vectors) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (ahead + j < left_) {
          float side[count];
          load_vector(side, at_[0] + strides(ahead + j));
#pragma unroll
          for (int i = 0; i < count; ++i) {
            to[i][j] = side[i];
          }
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (ahead + j < left_) {
#pragma unroll
          for (int i = 0; i < count; ++i) {
            to[i][j] = __ldcg(at_[i] + (major == Major::k ? ahead + j : strides(ahead + j)));
          }
        }
      }
    }
  }

  /// The lane's first k becomes one that is `by` further on.
  __device__ __forceinline__ void advance(int by) {
    left_ -= by;
#pragma unroll
    for (const float*& at : at_) {
      at += major == Major::k ? by : strides(by);
    }
  }

 private:
  // One multiply-add with an address, where it is needed: the compiler is not to make products of
  // the stride ahead of a loop, which would keep the first use of an operand waiting.
  __device__ __forceinline__ std::int64_t strides(int n) const {
    int stride = stride_;
    asm volatile("" : "+r"(stride));
    return std::int64_t{stride} * n;
  }

  int stride_;
  int left_;  // k from the lane's first on
  const float* at_[major == Major::line && vectors ? 1 : count];
};

}  // namespace sinter::cuda::tile
