// Threads that fetch the batches of a pass ahead of the loop that takes them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <sinter/training/dataset.h>

namespace sinter {

/// Batches first .. end - 1, each fetched by one of `workers` threads, taken in order.
class Prefetcher {
 public:
  using Fetch = std::function<Batch(std::int64_t batch)>;

  /// `fetch` is called from all threads at once. At most `ahead` batches (1 or more) are fetched or
  /// being fetched that next() has not returned. Throws Error where the system starts no such
  /// number of threads.
  Prefetcher(Fetch fetch, std::int64_t first, std::int64_t end, int workers, std::int64_t ahead);
  /// Waits for the batches that are just being fetched.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, or what fetching it threw; the call after that goes on with the one behind it.
  /// Not beyond the last.
  Batch next();

 private:
  struct Slot {
    bool filled = false;
    Batch batch;
    std::exception_ptr failure;
  };

  Slot& slot(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch) % slots_.size()]; }
  void work();
  void stop() noexcept;

  const Fetch fetch_;
  const std::int64_t end_;
  std::mutex mutex_;  // of all below but threads_
  std::condition_variable room_;
  std::condition_variable filled_;
  std::int64_t next_claimed_;
  std::int64_t next_taken_;
  bool stopping_ = false;
  std::vector<Slot> slots_;  // of batch i: i modulo their number
  std::vector<std::thread> threads_;
};

}  // namespace sinter
