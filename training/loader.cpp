#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <sinter/kernels/math/uniform.h>
#include <sinter/runtime/generator.h>
#include <sinter/runtime/parallel.h>
#include <sinter/training/loader.h>
#include <sinter/training/prefetcher.h>

namespace sinter {

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  check(n >= 0, "permutation: n is ", n, ", expected 0 or more");
  check(epoch >= 0 && epoch <= std::numeric_limits<std::uint32_t>::max(), "permutation: epoch ",
        epoch, " is outside [0, 2^32)");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i-- > 1;) {
    const std::uint64_t j =
        math::bounded(seed, math::Domain::shuffling, static_cast<std::uint32_t>(epoch), i, i + 1);
    std::swap(order[i], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

DataLoader::DataLoader(const Dataset& data, const LoaderOptions& options)
    : data_(&data), options_(options) {
  check(options.batch_size >= 1, "DataLoader: batch_size is ", options.batch_size,
        ", expected 1 or more");
  check(options.workers >= 0 && options.workers <= max_threads, "DataLoader: workers is ",
        options.workers, ", expected 0 to ", max_threads);
  check(options.prefetch >= 1, "DataLoader: prefetch is ", options.prefetch,
        ", expected 1 batch or more for each worker");
  const std::int64_t items = data.size();
  check(items > 0, "DataLoader: the data set has no items (size() is ", items, ")");
  check(batches() > 0, "DataLoader: drop_last leaves no batch, ", items,
        " items are fewer than one batch of ", options.batch_size);
  require_available(options.device);
  options_.seed = options.seed.value_or(global_seed());
}

std::int64_t DataLoader::batches() const {
  const std::int64_t items = data_->size();
  const std::int64_t full = items / options_.batch_size;
  return full + (!options_.drop_last && items % options_.batch_size != 0 ? 1 : 0);
}

void DataLoader::set_epoch(std::int64_t epoch, std::int64_t first_batch) {
  check(epoch >= 0, "DataLoader::set_epoch: the epoch is ", epoch, ", expected 0 or more");
  check(first_batch >= 0 && first_batch <= batches(), "DataLoader::set_epoch: an epoch has ",
        batches(), " batches, it cannot start at batch ", first_batch);
  epoch_ = epoch;
  first_batch_ = first_batch;
}

std::vector<std::int64_t> DataLoader::order_of(std::int64_t epoch) const {
  if (options_.shuffle) {
    return permutation(data_->size(), *options_.seed, epoch);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(data_->size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

DataLoader::Iterator DataLoader::begin() {
  return {*data_, options_, order_of(epoch_++), std::exchange(first_batch_, 0), batches()};
}

std::vector<std::int64_t> DataLoader::next_order() {
  std::vector<std::int64_t> order = order_of(epoch_++);
  const std::int64_t end = std::min(data_->size(), batches() * options_.batch_size);
  const std::int64_t first = std::min(end, std::exchange(first_batch_, 0) * options_.batch_size);
  return {order.begin() + first, order.begin() + end};
}

// What fetches the batches of a pass. Workers use it while the iterator is moved about.
struct DataLoader::Iterator::Pass {
  const Dataset* data;
  std::int64_t batch_size;
  Device device;
  std::vector<std::int64_t> order;
  std::optional<Prefetcher> workers = std::nullopt;  // last: stops before the others go

  Batch fetch(std::int64_t at, Device where) const {
    const auto begin = static_cast<std::size_t>(at * batch_size);
    const auto count = std::min(static_cast<std::size_t>(batch_size), order.size() - begin);
    Batch batch = data->batch(std::span<const std::int64_t>(order).subspan(begin, count), where);
    const auto first_size = [](const Tensor& t) { return t.rank() == 0 ? -1 : t.size(0); };
    const auto expected = static_cast<std::int64_t>(count);
    check(first_size(batch.inputs) == expected && first_size(batch.targets) == expected,
          "DataLoader: asked for a batch of ", expected,
          " items, the data set's batch() returned inputs ", batch.inputs.shape(), " and targets ",
          batch.targets.shape());
    return batch;
  }
};

DataLoader::Iterator::Iterator(const Dataset& data, const LoaderOptions& options,
                               std::vector<std::int64_t> order, std::int64_t first_batch,
                               std::int64_t batches)
    : pass_(new Pass{&data, options.batch_size, options.device, std::move(order)}),
      at_(first_batch),
      batches_(batches) {
  const std::int64_t left = batches - first_batch;
  if (options.workers > 0 && left > 0) {
    const std::int64_t workers = std::min<std::int64_t>(options.workers, left);
    const std::int64_t ahead = std::min(left, std::min(left, options.prefetch) * workers);
    pass_->workers.emplace(
        [pass = pass_.get()](std::int64_t at) { return pass->fetch(at, Device::cpu()); },
        first_batch, batches, static_cast<int>(workers), ahead);
  }
  fetch();
}

DataLoader::Iterator::Iterator(Iterator&& other) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&& other) noexcept = default;
DataLoader::Iterator::~Iterator() = default;

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  ++at_;
  batch_ = {};  // its memory can serve the next one
  fetch();
  return *this;
}

void DataLoader::Iterator::fetch() {
  if (at_ >= batches_) {
    return;
  }
  if (!pass_->workers) {
    batch_ = pass_->fetch(at_, pass_->device);
    return;
  }
  const Batch batch = pass_->workers->next();
  batch_ = {batch.inputs.to(pass_->device), batch.targets.to(pass_->device)};
}

}  // namespace sinter
