// Goes through a data set in batches, in an order that depends on the seed and the epoch only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include <sinter/training/dataset.h>

namespace sinter {

/// The numbers 0 .. n - 1 in the order of one epoch: a Fisher-Yates shuffle drawn from Philox under
/// a key of its own (kernels/math/uniform.h), so (n, seed, epoch) give the same order everywhere
/// and for any number of threads. Throws Error for a negative n and an epoch outside [0, 2^32).
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

struct LoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;     ///< unlike torch's DataLoader
  bool drop_last = false;  ///< leave out the last batch where it is smaller
  std::optional<std::uint64_t> seed = std::nullopt;  ///< of the shuffling; else global_seed()
  Device device = {};                                ///< where batches are wanted
  /// Threads that fetch batches ahead of the loop, as torch's num_workers; 0: the loop fetches each
  /// when it comes to it. Batches and their order are the same for any number.
  int workers = 0;
  std::int64_t prefetch = 2;  ///< batches ahead for each worker, as torch's prefetch_factor
};

/// Each loop over it is one epoch: every item once.
///
///     DataLoader loader(data.train, {.batch_size = 128});
///     for (auto [images, labels] : loader) { ... }
///
/// Make it once, outside the loop over epochs: a new loader starts at epoch 0 again, in the same
/// order. The data set must outlive the loader and its loops. What it throws reaches the loop
/// unchanged, at the batch that could not be fetched.
///
/// Workers call the data set's batch() from several threads at once, for the CPU, whatever device
/// is wanted: the thread of the loop moves batches there. Their parallel loops stay on them.
/// Leaving the loop waits for the batches that are just being fetched. Workers gain where fetching
/// takes long: files that are read, images that are unpacked; not for data that lies in memory, and
/// data that lies on a device they would copy back.
class DataLoader {
 public:
  /// Throws Error for a batch_size below 1, a data set without items or, with drop_last, without a
  /// full batch, a device that cannot be used, workers outside [0, max_threads], and a prefetch
  /// below 1.
  explicit DataLoader(const Dataset& data, const LoaderOptions& options = {});
  explicit DataLoader(const Dataset&& data, const LoaderOptions& options = {}) = delete;

  class Iterator;
  /// Starts the next epoch and fetches its first batch. Throws Error where the system does not
  /// start the workers.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Starts the next epoch and returns its items in order (without those that drop_last leaves
  /// out), for a caller who fetches them himself.
  std::vector<std::int64_t> next_order();

  /// Batches of a whole epoch.
  std::int64_t batches() const;
  /// The epoch that the next begin() starts: the number of epochs started so far, unless set.
  std::int64_t epoch() const { return epoch_; }
  /// To resume: the next begin() starts `epoch` at its batch `first_batch` of [0, batches()].
  /// Throws Error for a negative epoch or a batch out of range.
  void set_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  /// As given, with the seed in use.
  const LoaderOptions& options() const { return options_; }

 private:
  std::vector<std::int64_t> order_of(std::int64_t epoch) const;

  const Dataset* data_;
  LoaderOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t first_batch_ = 0;
};

/// One pass over an epoch, an input iterator that is moved, not copied: it owns its order and its
/// workers and goes on as it began, whatever becomes of the loader.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  Iterator(Iterator&& other) noexcept;
  Iterator& operator=(Iterator&& other) noexcept;
  ~Iterator();

  const Batch& operator*() const { return batch_; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return at_ >= batches_; }

 private:
  friend class DataLoader;
  struct Pass;
  Iterator(const Dataset& data, const LoaderOptions& options, std::vector<std::int64_t> order,
           std::int64_t first_batch, std::int64_t batches);
  void fetch();

  std::unique_ptr<Pass> pass_;
  std::int64_t at_;  // the batch that batch_ holds
  std::int64_t batches_;
  Batch batch_;
};

}  // namespace sinter
