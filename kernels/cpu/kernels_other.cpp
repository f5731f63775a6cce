// Other processors: the kernels exist in their baseline form only.
#include <sinter/kernels/cpu/kernels.h>

namespace sinter::cpu {

template <>
const Kernels<float>& kernels<float>() {
  return baseline::kernels_float();
}

template <>
const Kernels<double>& kernels<double>() {
  return baseline::kernels_double();
}

}  // namespace sinter::cpu
