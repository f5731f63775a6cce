// Joins values into one string: error sentences and log lines are written with it.
#pragma once

#include <sstream>
#include <string>

namespace sinter {

/// The parts, streamed one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace sinter
