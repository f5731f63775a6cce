// The table of this copy.
#include <sinter/kernels/cpu/isa/path.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

template <class T>
Kernels<T> make() {
  Kernels<T> table{};
  set_activations(table);
  set_passes(table);
  table.gemm = gemm<T>;
  return table;
}

}  // namespace

const Kernels<float>& kernels_float() {
  static const Kernels<float> table = make<float>();
  return table;
}

const Kernels<double>& kernels_double() {
  static const Kernels<double> table = make<double>();
  return table;
}

}  // namespace sinter::cpu::SINTER_CPU_PATH
