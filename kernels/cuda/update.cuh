// The update of one parameter element, by the same arithmetic in every kernel that does it.
#pragma once

#include <sinter/kernels/cuda/unit.cuh>
#include <sinter/kernels/math/optimizers.h>

namespace sinter::cuda {

/// A float whose products are rounded before they are added to anything. Which of them a compiler
/// fuses differs from kernel to kernel; a parameter is to get the same bits from all of them, and
/// gets the CPU's.
struct Unfused {
  float value;

  Unfused() = default;
  SINTER_HD explicit Unfused(float x) : value(x) {}
  SINTER_HD explicit Unfused(double x) : value(static_cast<float>(x)) {}

  friend SINTER_HD Unfused operator+(Unfused a, Unfused b) { return Unfused(a.value + b.value); }
  friend SINTER_HD Unfused operator-(Unfused a, Unfused b) { return Unfused(a.value - b.value); }
  friend SINTER_HD Unfused operator*(Unfused a, Unfused b) {
    return Unfused(GpuUnit::multiply(a.value, b.value));
  }
  friend SINTER_HD Unfused operator/(Unfused a, Unfused b) { return Unfused(a.value / b.value); }
  friend SINTER_HD bool operator<(Unfused a, Unfused b) { return a.value < b.value; }
  friend SINTER_HD Unfused abs(Unfused x) { return Unfused(::fabsf(x.value)); }
  friend SINTER_HD Unfused sqrt(Unfused x) { return Unfused(::sqrtf(x.value)); }
};

}  // namespace sinter::cuda

namespace sinter::math::detail {

template <>
struct LanesOf<cuda::Unfused> : LanesOf<float> {};

}  // namespace sinter::math::detail

namespace sinter::cuda {

__device__ __forceinline__ void update_parameter(const math::SgdConstants<float>& constants,
                                                 float gradient, float& parameter) {
  Unfused p(parameter);
  math::sgd_step(p, Unfused(gradient), constants);
  parameter = p.value;
}
__device__ __forceinline__ void update_parameter(const math::SgdConstants<float>& constants,
                                                 float gradient, float& parameter,
                                                 float& velocity) {
  Unfused p(parameter), v(velocity);
  math::sgd_step(p, Unfused(gradient), v, constants);
  parameter = p.value;
  velocity = v.value;
}
__device__ __forceinline__ void update_parameter(const math::AdamConstants<float>& constants,
                                                 float gradient, float& parameter, float& mean,
                                                 float& square) {
  Unfused p(parameter), m(mean), s(square);
  math::adam_step(p, Unfused(gradient), m, s, constants);
  parameter = p.value;
  mean = m.value;
  square = s.value;
}

}  // namespace sinter::cuda
