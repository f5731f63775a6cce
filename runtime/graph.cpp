#include <algorithm>
#include <utility>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/graph.h>

namespace sinter {
namespace {

thread_local Graph* current = nullptr;

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::size_t alignment = 16;  // of a live value: kernels load whole vectors

}  // namespace

Graph* Graph::recording() { return current; }

bool Graph::can_record(Device device) {
  return is_available(device) && backend(device.type).begin_capture != nullptr;
}

Graph::Graph(Device device, Tensor fault)
    : device_(device), lease_(device), fault_(std::move(fault)) {
  require_available(device);
  check(can_record(device), "Graph: ", device, " records no graphs");
  if (!fault_.defined()) {
    fault_ = no_faults(device);
  }
}

Graph::~Graph() {
  if (handle_ != nullptr) {
    backend(device_.type).release_graph(device_.index, handle_);
  }
}

Tensor Graph::no_faults(Device device) {
  return Tensor::from(std::vector<std::int64_t>{no_fault, 0, 0}, {3}, device);
}

std::optional<std::array<std::int64_t, 3>> Graph::take_fault(Tensor& fault) {
  std::array<std::int64_t, 3> words{};
  fault.copy_to(std::span<std::int64_t>(words));
  if (words[0] == no_fault) {
    return {};
  }
  fault.copy_from(no_faults(fault.device()));
  return words;
}

void Graph::record(const std::function<void()>& work) {
  check(!is_capturing(), "Graph::record: this thread is recording a graph already");
  check(handle_ == nullptr, "Graph::record: the graph has been recorded");
  const Backend& row = backend(device_.type);
  void* handle = nullptr;
  const auto restore = [this] {
    current = nullptr;
    while (!restore_.empty()) {
      std::exchange(restore_.back(), nullptr)();
      restore_.pop_back();
    }
    counters_.clear();
  };
  const auto forget = [this] {
    live_.clear();
    advance_.clear();
    written_.clear();
  };
  {
    const CaptureScope capturing;
    const PoolLease::Scope leasing(&lease_);
    row.begin_capture(device_.index);
    current = this;
    try {
      work();
      join();
    } catch (...) {
      if (std::exchange(has_branch_, false)) {
        lease_.let_go();
      }
      restore();
      row.end_capture(device_.index, /*keep=*/false);
      forget();
      throw;
    }
    restore();
    try {
      handle = row.end_capture(device_.index, /*keep=*/true);
    } catch (...) {
      forget();
      throw;
    }
  }
  handle_ = handle;
  // What has gone was the work's own.
  std::erase_if(written_, [](const std::weak_ptr<Storage>& storage) { return storage.expired(); });
}

void Graph::beside(const std::function<void()>& work) {
  check(current == this, "Graph::beside: it is not being recorded");
  check(!in_branch_, "Graph::beside: work beside cannot have work beside itself");
  join();
  const Backend& row = backend(device_.type);
  if (row.begin_branch != nullptr) {
    row.begin_branch(device_.index);
  }
  has_branch_ = in_branch_ = true;
  const auto end = [&] {
    in_branch_ = false;
    if (row.end_branch != nullptr) {
      row.end_branch(device_.index);
    }
  };
  try {
    const PoolLease::Hold holding;
    work();
  } catch (...) {
    end();
    throw;
  }
  end();
}

void Graph::join() {
  if (!std::exchange(has_branch_, false)) {
    return;
  }
  const Backend& row = backend(device_.type);
  if (row.join_branch != nullptr) {
    row.join_branch(device_.index);
  }
  lease_.let_go();
}

std::int64_t Graph::kernels() const {
  return handle_ == nullptr ? 0 : backend(device_.type).kernels_of_graph(handle_);
}

void Graph::replay() {
  check(handle_ != nullptr, "Graph::replay: nothing has been recorded");
  check(!is_capturing(), "Graph::replay: this thread is recording a graph");
  const Backend& row = backend(device_.type);
  for (const Live& value : live_) {
    value.write(std::span(blocks_[value.block].host).subspan(value.offset, value.bytes));
  }
  for (const Block& block : blocks_) {
    row.copy_from_host(device_.index, block.device.address(), block.host.data(), block.used);
  }
  row.replay_graph(device_.index, handle_);
  for (const std::weak_ptr<Storage>& storage : written_) {
    if (const auto alive = storage.lock()) {
      alive->bump_version();
    }
  }
  for (const auto& advance : advance_) {
    advance();
  }
}

Tensor Graph::live(const Shape& shape, DType dtype,
                   std::function<void(std::span<std::byte>)> write) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  if (blocks_.empty() || blocks_.back().used + padded > blocks_.back().host.size()) {
    const std::size_t size = std::max(block_bytes, padded);
    // Not from the lease, where it could be memory that work recorded before writes to: a replay
    // would fill it before that work runs.
    const PoolLease::Scope elsewhere(nullptr);
    blocks_.push_back({Tensor::empty({static_cast<std::int64_t>(size)}, DType::uint8, device_),
                       std::vector<std::byte>(size)});
  }
  Block& block = blocks_.back();
  const std::size_t offset = std::exchange(block.used, block.used + padded);
  live_.push_back({blocks_.size() - 1, offset, bytes, std::move(write)});
  return block.device.slice_as(static_cast<std::int64_t>(offset), shape, dtype);
}

void Graph::when_recorded(std::function<void()> restore) { restore_.push_back(std::move(restore)); }
void Graph::when_replayed(std::function<void()> advance) { advance_.push_back(std::move(advance)); }

std::uint64_t Graph::advanced(const void* counter, std::uint64_t now, bool& is_new) {
  const auto [found, inserted] = counters_.try_emplace(counter, now);
  is_new = inserted;
  return now - found->second;
}

void Graph::writes(const Tensor& tensor) {
  const auto same = [&](const std::weak_ptr<Storage>& storage) {
    return !storage.owner_before(tensor.storage()) && !tensor.storage().owner_before(storage);
  };
  if (tensor.defined() && std::ranges::none_of(written_, same)) {
    written_.push_back(tensor.storage());
  }
}

}  // namespace sinter
