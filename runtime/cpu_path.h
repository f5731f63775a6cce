// Which instruction set the CPU kernels use. The kernels are compiled once for each; one is chosen
// when the first is needed.
#pragma once

#include <cstdint>
#include <string_view>

namespace sinter {

enum class CpuPath : std::uint8_t { baseline, avx2, avx512 };

/// "baseline", "avx2", "avx512"
std::string_view name_of(CpuPath path);
/// Whether this build has the path and this processor can run it.
bool is_available(CpuPath path);
/// The widest path available, or the one that the environment variable SINTER_CPU names. Throws
/// Error where that one is unknown or cannot run here.
CpuPath cpu_path();

}  // namespace sinter
