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

/// Whether there are the tensor cores that multiply_add() takes; without, kernels that would are
/// empty, and nobody launches them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool has_tf32 = false;
#else
inline constexpr bool has_tf32 = true;
#endif

/// c += a b for 16 x 8 elements of TF32 and a depth of 8, by all lanes of a warp
/// (mma.sync.m16n8k8).
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// Waits until the kernels before this one have ended and what they wrote can be seen, then lets
/// the next one start. In this order: whoever has come past the wait of the next kernel, or not
/// even waits there, sees all that was written two kernels ago.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

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
