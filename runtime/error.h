// What a caller's mistake becomes: one exception type that carries one sentence.
#pragma once

#include <stdexcept>
#include <string>

#include <sinter/runtime/text.h>

namespace sinter {

/// A mistake of the caller, told in one sentence: who noticed, what was expected, what came, and
/// the likely cause. The process may go on after it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& sentence) : std::runtime_error(sentence) {}
};

/// Throws Error with the parts joined unless `condition` holds. The parts are only joined on
/// failure, so a check on a hot path costs one branch.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    throw Error(text(parts...));
  }
}

}  // namespace sinter
