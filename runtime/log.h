// The library's log: quiet unless something needs the user's attention.
#pragma once

#include <string_view>

namespace sinter::log {

/// Writes one line to standard error. The environment variable SINTER_LOG picks what is shown:
/// debug, info, warn (the default), error or off.
void debug(std::string_view line);
void info(std::string_view line);
void warn(std::string_view line);
void error(std::string_view line);

}  // namespace sinter::log
