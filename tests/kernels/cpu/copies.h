#pragma once

// The copies of the CPU kernels, one for each instruction set.

#include <string_view>
#include <type_traits>
#include <vector>

#include <sinter/kernels/cpu/kernels.h>
#include <sinter/runtime/cpu_path.h>

namespace sinter::cpu {

template <class T>
const Kernels<T>& pick(const Kernels<float>& (*floats)(), const Kernels<double>& (*doubles)()) {
  if constexpr (std::is_same_v<T, float>) {
    return floats();
  } else {
    return doubles();
  }
}

template <class T>
struct Copy {
  std::string_view name;
  CpuPath path;
  const Kernels<T>* table;
};

// Those that this build has and this processor can run; the first is the plainest.
template <class T>
std::vector<Copy<T>> copies() {
  std::vector<Copy<T>> all{
      {"baseline", CpuPath::baseline, &pick<T>(baseline::kernels_float, baseline::kernels_double)}};
#if defined(__x86_64__)
  if (is_available(CpuPath::avx2)) {
    all.push_back({"avx2", CpuPath::avx2, &pick<T>(avx2::kernels_float, avx2::kernels_double)});
  }
  if (is_available(CpuPath::avx512)) {
    all.push_back(
        {"avx512", CpuPath::avx512, &pick<T>(avx512::kernels_float, avx512::kernels_double)});
  }
#endif
  return all;
}

}  // namespace sinter::cpu
