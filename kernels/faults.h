// A label or an index that is out of range, and what is said of it: the same sentence wherever it
// was found, by a loop of the CPU or by a kernel that could only note it.
#pragma once

#include <cstdint>
#include <string>

namespace sinter {

/// At `position` of its tensor stands `value`, which is outside [0, bound).
struct Fault {
  std::int64_t position = 0;
  std::int64_t value = 0;
  std::int64_t bound = 0;
};

/// Of a label of a loss; `has_zero`: among the labels there is a 0, so they do not count from 1.
std::string label_sentence(const char* who, const Fault& fault, bool has_zero);
/// Of an index of gather_rows or gather_normalise.
std::string index_sentence(const char* op, const Fault& fault);

}  // namespace sinter
