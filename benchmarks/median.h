// The middle of what was measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bench {

/// The middle one, or the mean of the middle two; of at least one.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace bench
