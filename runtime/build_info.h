// What this build of the library is, for bug reports and a program's first lines.
#pragma once

#include <string>

namespace sinter {

/// One line: version, compiler, CUDA (toolkit version and architectures, or why there is none),
/// the CPU path in use and the device that would be chosen, with the reason. Never throws.
std::string build_info();

/// "0.1.0"
const char* version();

}  // namespace sinter
