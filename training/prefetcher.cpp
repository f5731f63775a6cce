#include <exception>
#include <utility>

#include <sinter/runtime/parallel.h>
#include <sinter/training/prefetcher.h>

namespace sinter {

Prefetcher::Prefetcher(Fetch fetch, std::int64_t first, std::int64_t end, int workers,
                       std::int64_t ahead)
    : fetch_(std::move(fetch)),
      end_(end),
      next_claimed_(first),
      next_taken_(first),
      slots_(static_cast<std::size_t>(ahead)) {
  threads_.reserve(static_cast<std::size_t>(workers));
  try {
    while (threads_.size() < static_cast<std::size_t>(workers)) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::exception& failure) {
    stop();
    throw Error(text("DataLoader: the system started ", threads_.size(), " of ", workers,
                     " workers and no more (", failure.what(), "); ask for fewer"));
  }
}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Prefetcher::work() {
  const OneThread alone;
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [this] {
      return stopping_ || next_claimed_ == end_ ||
             next_claimed_ - next_taken_ < static_cast<std::int64_t>(slots_.size());
    });
    if (stopping_ || next_claimed_ == end_) {
      return;
    }
    const std::int64_t mine = next_claimed_++;
    lock.unlock();
    Slot result{.filled = true, .batch = {}, .failure = nullptr};
    try {
      result.batch = fetch_(mine);
    } catch (...) {
      result.failure = std::current_exception();
    }
    lock.lock();
    slot(mine) = std::move(result);
    filled_.notify_one();  // one thread takes
  }
}

Batch Prefetcher::next() {
  Slot taken;
  {
    std::unique_lock lock(mutex_);
    Slot& next = slot(next_taken_);
    filled_.wait(lock, [&next] { return next.filled; });
    taken = std::exchange(next, {});
    ++next_taken_;
  }
  room_.notify_one();  // for one batch more
  if (taken.failure) {
    std::rethrow_exception(std::move(taken.failure));
  }
  return std::move(taken.batch);
}

}  // namespace sinter
