// Other processors: the kernels exist in their baseline form only.
#include <sinter/runtime/cpu_path.h>

namespace sinter {

bool is_available(CpuPath path) { return path == CpuPath::baseline; }

}  // namespace sinter
