#pragma once

// The one host/device macro. The CPU kernels are compiled once per instruction set and linked into
// one program: an ordinary inline function would leave a weak symbol in each copy, and the linker
// may keep the AVX-512 one for everybody. Whatever kernels include is therefore always inlined.

#if defined(__CUDACC__)
#define SINTER_HD __host__ __device__ __forceinline__
#else
#define SINTER_HD inline __attribute__((always_inline))
#endif

// The same promise for helpers that only the host calls (nvcc warns when a host-device function
// calls a host lambda).
#define SINTER_HOST_INLINE inline __attribute__((always_inline))
