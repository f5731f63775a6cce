// 16 bytes of memory as floats: what one load or store instruction of a GPU moves.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <sinter/runtime/dtype.h>

namespace sinter::cuda {

/// Elements in one vector.
template <class T>
inline constexpr int width = 16 / sizeof(T);

template <class T>
struct Vector {
  float value[width<T>];
};

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(float16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float to_float(bfloat16 x) {
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Rounded to nearest, ties to even.
template <class T>
__device__ T from_float(float x) {
  T y;
  if constexpr (sizeof(T) == 4) {
    y = x;
  } else if constexpr (dtype_of<T> == DType::float16) {
    y.bits = __half_as_ushort(__float2half_rn(x));
  } else {
    y.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  }
  return y;
}

/// The 16 bytes at an address that is a multiple of 16, as they lie there.
template <class T>
__device__ uint4 load_raw(const T* from) {
  return *reinterpret_cast<const uint4*>(from);
}
template <class T>
__device__ Vector<T> unpacked(const uint4& raw) {
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
  Vector<T> v;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      v.value[i] = __uint_as_float(words[i]);
    } else if constexpr (dtype_of<T> == DType::float16) {
      v.value[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i])));
      v.value[2 * i + 1] =
          __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
    } else {
      v.value[2 * i] = __uint_as_float(words[i] << 16);
      v.value[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
  return v;
}

template <class T>
__device__ Vector<T> load(const T* from) {
  return unpacked<T>(load_raw(from));
}

/// Rounded to T, as it will lie in memory.
template <class T>
__device__ uint4 packed(const Vector<T>& v) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(v.value[i]);
    } else if constexpr (dtype_of<T> == DType::float16) {
      const __half2 pair = __floats2half2_rn(v.value[2 * i], v.value[2 * i + 1]);
      words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    } else {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(v.value[2 * i], v.value[2 * i + 1]);
      words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

template <class T>
__device__ void store(T* to, const Vector<T>& v) {
  *reinterpret_cast<uint4*>(to) = packed(v);
}

}  // namespace sinter::cuda
