// The threads that a parallel loop runs on. A build chooses one of two files: team_openmp.cpp,
// whose threads wait for the next loop, or team_std.cpp for ThreadSanitizer, which does not see how
// OpenMP's library synchronises.
#pragma once

#include <cstdint>

namespace sinter::detail {

/// Calls body(context, piece) for every piece in [0, pieces), an even share of them in order on
/// each of `threads` threads, and returns when all are done. `body` must not throw.
void run_team(int threads, std::int64_t pieces, void (*body)(void*, std::int64_t), void* context);
/// Whether the caller is one of a team.
bool is_in_team();

}  // namespace sinter::detail
