// Four neighbouring elements of a row: what a lane finishes at a time.
#pragma once

#include <cstdint>

namespace sinter::cuda::tile {

using Quad = float[4];

/// Elements of a quad that exist: rows and columns beside the matrix have none.
__device__ __forceinline__ int valid(int row, int column, int rows, int columns) {
  return row < rows ? max(0, min(4, columns - column)) : 0;
}

/// 0 where there is nothing. `vectors`: rows are whole quads that begin at multiples of 16 bytes.
__device__ __forceinline__ void load_quad(Quad& to, const float* from, int count, bool vectors) {
  if (vectors) {
    const float4 v = count == 4 ? __ldcg(reinterpret_cast<const float4*>(from))
                                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i] = i < count ? __ldcg(from + i) : 0.0f;
    }
  }
}

__device__ __forceinline__ void store_quad(float* to, const Quad& from, int count, bool vectors) {
  if (vectors) {
    if (count == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) {
        to[i] = from[i];
      }
    }
  }
}

}  // namespace sinter::cuda::tile
