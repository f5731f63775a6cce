#include <array>
#include <cstdlib>
#include <string>

#include <sinter/runtime/cpu_path.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace {

constexpr std::array all{CpuPath::avx512, CpuPath::avx2, CpuPath::baseline};

CpuPath choose() {
  const char* wanted = std::getenv("SINTER_CPU");
  for (const CpuPath path : all) {
    if (wanted == nullptr || *wanted == '\0') {
      if (is_available(path)) {
        return path;
      }
    } else if (name_of(path) == wanted) {
      check(is_available(path), "SINTER_CPU=", wanted,
            ": this processor or this build cannot run that path; unset it to use the best one");
      return path;
    }
  }
  throw Error(text("SINTER_CPU=", wanted, " is unknown: expected baseline, avx2 or avx512"));
}

}  // namespace

std::string_view name_of(CpuPath path) {
  switch (path) {
    case CpuPath::avx2:
      return "avx2";
    case CpuPath::avx512:
      return "avx512";
    case CpuPath::baseline:
      break;
  }
  return "baseline";
}

CpuPath cpu_path() {
  static const CpuPath chosen = choose();
  return chosen;
}

}  // namespace sinter
