#include <atomic>
#include <exception>
#include <mutex>
#include <omp.h>

#include <sinter/runtime/error.h>
#include <sinter/runtime/parallel.h>

namespace sinter {
namespace {

std::atomic<int> wanted_threads{0};  // 0: nobody said

}  // namespace

int num_threads() {
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  return wanted > 0 ? wanted : std::min(omp_get_max_threads(), max_threads);
}

void set_num_threads(int threads) {
  check(threads >= 1 && threads <= max_threads, "set_num_threads: expected 1 to ", max_threads,
        " threads, got ", threads);
  wanted_threads.store(threads, std::memory_order_relaxed);
}

namespace detail {

void run_pieces(std::int64_t pieces, void (*body)(void*, std::int64_t), void* context) {
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads(), pieces));
  if (threads <= 1 || omp_in_parallel() != 0) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      body(context, piece);
    }
    return;
  }
  std::exception_ptr failure;
  std::int64_t failed_piece = pieces;
  std::mutex failure_mutex;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    try {
      body(context, piece);
    } catch (...) {
      const std::scoped_lock lock(failure_mutex);
      if (piece < failed_piece) {  // the one that a single thread would have met
        failure = std::current_exception();
        failed_piece = piece;
      }
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace detail
}  // namespace sinter
