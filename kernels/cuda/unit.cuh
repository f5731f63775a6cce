// The instructions of a GPU that kernels/math/scalar.h asks for, and the numbers made with them.
#pragma once

#include <sinter/kernels/math/scalar.h>
#include <sinter/runtime/dtype.h>

namespace sinter::cuda {

/// Threads that a multiprocessor holds when it is full.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr int resident_threads = 1024;
#else
inline constexpr int resident_threads = 2048;
#endif

struct GpuUnit {
  static SINTER_HD float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static SINTER_HD float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static SINTER_HD float tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static SINTER_HD float min(float x, float bound) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
    return y;
#else
    return bound < x ? bound : x;  // older GPUs have no minimum that lets NaN through
#endif
  }
  static SINTER_HD float max(float x, float bound) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
    return y;
#else
    return x < bound ? bound : x;
#endif
  }
  static SINTER_HD float multiply(float a, float b) {
    float y;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
};

template <class T>
inline constexpr math::Grade grade = math::Grade::float32;
template <>
inline constexpr math::Grade grade<float16> = math::Grade::float16;
template <>
inline constexpr math::Grade grade<bfloat16> = math::Grade::bfloat16;

/// What kernels compute with for elements stored as T.
template <class T>
using Number = math::Scalar<GpuUnit, grade<T>>;

}  // namespace sinter::cuda
