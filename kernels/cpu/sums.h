// Sums in a fixed order, whatever the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include <sinter/runtime/parallel.h>

namespace sinter::cpu {

/// The sum of part(begin, end) over blocks that cover [0, n), added in order. A part may write what
/// is its own.
template <class Part>
double sum_of_blocks(std::int64_t n, Part&& part) {
  constexpr std::int64_t grain = parallel_grain;
  std::vector<double> partial(static_cast<std::size_t>((n + grain - 1) / grain));
  parallel_ranges(n, grain, [&](std::int64_t begin, std::int64_t end) {
    partial[static_cast<std::size_t>(begin / grain)] = part(begin, end);
  });
  double total = 0;
  for (const double sum : partial) {
    total += sum;
  }
  return total;
}

/// The sum of term(i) over [0, n).
template <class Term>
double sum_of_terms(std::int64_t n, Term&& term) {
  return sum_of_blocks(n, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      sum += term(i);
    }
    return sum;
  });
}

}  // namespace sinter::cpu
