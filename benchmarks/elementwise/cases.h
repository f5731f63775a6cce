// What the element-wise benchmark of the GPU times, and what came out of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <sinter/runtime/dtype.h>

namespace bench {

/// Every tensor is this long, and smaller sizes are slices of it, so that no size is timed on data
/// that an earlier launch left in the cache.
inline constexpr std::int64_t whole = std::int64_t{1} << 27;

struct Selection {
  std::vector<std::string> only;  ///< names of activations; empty: all
  std::vector<std::string> tape;  ///< those also timed through the public functions
  std::vector<sinter::DType> dtypes;
  std::vector<std::int64_t> sizes;
  std::vector<double> ps;
  int rounds = 0;
};

/// Slices of `n` elements that launches take in turn. 512 of the smallest size are already more
/// than any cache holds.
inline std::int64_t slices_of(std::int64_t n) {
  return std::clamp<std::int64_t>(whole / n, 1, 512);
}

/// Launches in one replay: enough to last about a millisecond, beside which its start is nothing.
inline int launches_of(std::int64_t n, sinter::DType dtype) {
  const auto size = static_cast<std::int64_t>(sinter::size_of(dtype));
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{1} << 31) / (n * size), 4, 512));
}

/// One case. `direction` is "forward" (reads one tensor, writes one), "backward" (reads two, writes
/// one), or "tape": both, called through the public functions with a tape, as a program does.
struct Result {
  std::string name;
  sinter::DType dtype = sinter::DType::float32;
  std::string direction;
  double p = 0;
  std::int64_t n = 0;
  double us = 0;
  double copy_us = 0;  ///< of a copy of n elements, timed in turn with this case

  std::int64_t tensors() const { return direction == "forward" ? 2 : direction == "tape" ? 5 : 3; }
  /// That must move, whatever a kernel does.
  std::int64_t bytes() const {
    return tensors() * n * static_cast<std::int64_t>(sinter::size_of(dtype));
  }
  /// Of the bandwidth of the copy, which moves two tensors.
  double percent_of_copy() const { return 100 * copy_us / us * static_cast<double>(tensors()) / 2; }
};

}  // namespace bench
