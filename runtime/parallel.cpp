#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <omp.h>
#include <sched.h>
#include <string>
#include <unistd.h>

#include <sinter/runtime/error.h>
#include <sinter/runtime/log.h>
#include <sinter/runtime/parallel.h>
#include <sinter/runtime/team.h>

namespace sinter {
namespace {

std::atomic<int> wanted_threads{0};  // 0: nobody said
thread_local constinit int one_thread_scopes = 0;

// The first number of OMP_NUM_THREADS, which may be a list, one for each level of nesting; 0 where
// it has none above 0, so that OpenMP passes the variable over.
long long first_number(const std::string& value) {
  const char* const begin = value.c_str();
  char* end = nullptr;
  const long long number = std::strtoll(begin, &end, 10);
  while (*end == ' ' || *end == '\t') {
    ++end;
  }
  const bool is_number = end != begin && (*end == '\0' || *end == ',');
  return is_number ? std::max(number, 0LL) : 0;
}

// Processors that the main thread may run on, and so every thread that was not pinned. 0 where the
// system does not say.
int processors_of_main_thread() {
  cpu_set_t set;
  return ::sched_getaffinity(::getpid(), sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

// Processors that this process may run on, asked for once since the answer takes a system call.
// OpenMP knows those of the thread that asks, which may be pinned to one and must not decide for
// the others; but under OMP_PROC_BIND, which pins the main thread too, only OpenMP knows them all.
int processors() {
  static const int count = [] {
    const int here =
        std::clamp(std::max(omp_get_num_procs(), processors_of_main_thread()), 1, max_threads);
    const char* variable = std::getenv("OMP_NUM_THREADS");
    const std::string value = variable == nullptr ? "" : variable;
    const long long number = first_number(value);
    const int used = std::min(omp_get_max_threads(), here);
    if (!value.empty() && number == 0) {
      log::warn(text("OMP_NUM_THREADS=", value, " is not a number of threads; using ", used));
    } else if (number > here) {
      log::warn(text("OMP_NUM_THREADS=", value, ", but this process may run on ", here,
                     here == 1 ? " processor" : " processors", " only; using ", used,
                     " (set_num_threads() takes more)"));
    }
    return here;
  }();
  return count;
}

}  // namespace

int num_threads() {
  if (one_thread_scopes > 0) {
    return 1;
  }
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  return wanted > 0 ? wanted : std::min(omp_get_max_threads(), processors());
}

void set_num_threads(int threads) {
  check(threads >= 1 && threads <= max_threads, "set_num_threads: expected 1 to ", max_threads,
        " threads, got ", threads);
  wanted_threads.store(threads, std::memory_order_relaxed);
}

OneThread::OneThread() { ++one_thread_scopes; }
OneThread::~OneThread() { --one_thread_scopes; }

namespace detail {

void run_pieces(std::int64_t pieces, void (*body)(void*, std::int64_t), void* context) {
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads(), pieces));
  if (threads <= 1 || is_in_team()) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      body(context, piece);
    }
    return;
  }
  struct Loop {
    void (*body)(void*, std::int64_t);
    void* context;
    std::int64_t failed_piece;
    std::exception_ptr failure = nullptr;
    std::mutex mutex = {};
  } loop{body, context, pieces};
  const auto try_piece = [](void* of, std::int64_t piece) {
    Loop& in = *static_cast<Loop*>(of);
    try {
      in.body(in.context, piece);
    } catch (...) {
      const std::scoped_lock lock(in.mutex);
      if (piece < in.failed_piece) {  // the one that a single thread would have met
        in.failure = std::current_exception();
        in.failed_piece = piece;
      }
    }
  };
  run_team(threads, pieces, try_piece, &loop);
  if (loop.failure) {
    std::rethrow_exception(loop.failure);
  }
}

}  // namespace detail
}  // namespace sinter
