#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <sinter/kernels/math/uniform.h>
#include <sinter/runtime/generator.h>
#include <sinter/training/loader.h>

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

DataLoader::Iterator::Iterator(const Dataset& data, const LoaderOptions& options,
                               std::vector<std::int64_t> order, std::int64_t first_batch,
                               std::int64_t batches)
    : data_(&data),
      batch_size_(options.batch_size),
      device_(options.device),
      order_(std::move(order)),
      at_(first_batch),
      batches_(batches) {
  fetch();
}

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
  const auto begin = static_cast<std::size_t>(at_ * batch_size_);
  const auto count = std::min(static_cast<std::size_t>(batch_size_), order_.size() - begin);
  batch_ = data_->batch(std::span<const std::int64_t>(order_).subspan(begin, count), device_);
  const auto first_size = [](const Tensor& t) { return t.rank() == 0 ? -1 : t.size(0); };
  const auto expected = static_cast<std::int64_t>(count);
  check(first_size(batch_.inputs) == expected && first_size(batch_.targets) == expected,
        "DataLoader: asked for a batch of ", expected,
        " items, the data set's batch() returned inputs ", batch_.inputs.shape(), " and targets ",
        batch_.targets.shape());
}

}  // namespace sinter
