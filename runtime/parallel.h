// Loops over the processor's cores, such that no result depends on the number of threads: where a
// result would depend on how work is cut, it is cut into fixed ranges; where none does, into one
// even share for each thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace sinter {

/// Threads that parallel loops use: what set_num_threads said, else OpenMP's choice
/// (OMP_NUM_THREADS, or one for each processor that this process may run on), but no more than
/// there are processors: threads that share one wait for each other. An OMP_NUM_THREADS that does
/// not decide is said in the log, once.
int num_threads();
/// More than any machine has, and few enough for every system to start.
inline constexpr int max_threads = 1024;
/// Throws Error below 1 and above max_threads.
void set_num_threads(int threads);

/// While it lives, num_threads() is 1 in the thread that made it, whatever others set: for one of
/// several threads that work side by side, each of which would else start as many as there are
/// processors.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

namespace detail {
void run_pieces(std::int64_t pieces, void (*body)(void*, std::int64_t), void* context);
}  // namespace detail

/// Calls body(piece) for every piece in [0, pieces), in any order, on any thread. Where pieces
/// throw, the exception of the first of them is thrown again here, after all that were begun have
/// ended.
template <class Body>
void parallel_pieces(std::int64_t pieces, Body&& body) {
  if (pieces == 1) {
    body(std::int64_t{0});
    return;
  }
  detail::run_pieces(
      pieces,
      [](void* context, std::int64_t piece) {
        (*static_cast<std::remove_reference_t<Body>*>(context))(piece);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Elements below which one thread is faster than waking the others.
inline constexpr std::int64_t parallel_grain = 32768;

/// Calls body(begin, end) for even shares of [0, n), one for each thread, but no more than there
/// are `grain`s begun in n; shares of a grain above 4096 are multiples of 64. For loops whose
/// results do not depend on where they are cut.
template <class Body>
void parallel_shares(std::int64_t n, std::int64_t grain, Body&& body) {
  if (n <= 0) {
    return;
  }
  const std::int64_t unit = grain > 4096 ? 64 : 1;
  const std::int64_t shares = std::min<std::int64_t>(num_threads(), (n - 1) / grain + 1);
  const auto begin_of = [=](std::int64_t share) {
    return share == shares ? n : n / shares * share / unit * unit;
  };
  parallel_pieces(shares, [&](std::int64_t share) { body(begin_of(share), begin_of(share + 1)); });
}

/// Calls body(begin, end) for ranges of `grain` that cover [0, n), however many threads there are.
/// One range: no other thread.
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t grain, Body&& body) {
  if (n <= 0) {
    return;
  }
  parallel_pieces((n + grain - 1) / grain, [&](std::int64_t piece) {
    body(piece * grain, std::min(n, (piece + 1) * grain));
  });
}

}  // namespace sinter
