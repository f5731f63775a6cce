// x86-64: what this processor can run.
#include <sinter/runtime/cpu_path.h>

namespace sinter {

bool is_available(CpuPath path) {
  switch (path) {
    case CpuPath::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuPath::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             is_available(CpuPath::avx2);
    case CpuPath::baseline:
      break;
  }
  return true;
}

}  // namespace sinter
