// x86-64: picks the copy of the kernels that this processor runs.
#include <sinter/kernels/cpu/kernels.h>
#include <sinter/runtime/cpu_path.h>

namespace sinter::cpu {
namespace {

template <class T>
const T& pick(const T& (*baseline)(), const T& (*avx2)(), const T& (*avx512)()) {
  switch (cpu_path()) {
    case CpuPath::avx512:
      return avx512();
    case CpuPath::avx2:
      return avx2();
    case CpuPath::baseline:
      break;
  }
  return baseline();
}

}  // namespace

template <>
const Kernels<float>& kernels<float>() {
  static const auto& table =
      pick(baseline::kernels_float, avx2::kernels_float, avx512::kernels_float);
  return table;
}

template <>
const Kernels<double>& kernels<double>() {
  static const auto& table =
      pick(baseline::kernels_double, avx2::kernels_double, avx512::kernels_double);
  return table;
}

}  // namespace sinter::cpu
