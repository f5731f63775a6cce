#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

// Eight sizes for each power of two, 256 bytes apart at least: at most an eighth of a larger block
// is unused, and blocks of nearly equal size serve one another.
struct SizeClass {
  std::size_t size;   ///< of a block, in bytes
  std::size_t index;  ///< grows with the size

  constexpr explicit SizeClass(std::size_t bytes) {
    // No device has half of what a size_t counts, and beyond it the size would overflow.
    const std::size_t wanted = std::clamp<std::size_t>(bytes, 1, SIZE_MAX / 2);
    // The step between sizes is 2^shift: 256 up to 4096 bytes, then an eighth of a power of two.
    const auto shift = 7 + std::max<std::size_t>(1, std::bit_width((wanted - 1) >> 11));
    const std::size_t steps = ((wanted - 1) >> shift) + 1;
    size = steps << shift;
    index = 8 * (shift - 8) + steps;
  }
};
constexpr std::size_t size_classes = SizeClass(SIZE_MAX).index + 1;

bool reuse_is_off() {
  const char* wanted = std::getenv("SINTER_POOL");
  return wanted != nullptr && std::string_view(wanted) == "off";
}

thread_local PoolLease* leasing = nullptr;
thread_local bool holding = false;  // what is released to the lease waits for let_go()

// A block goes to its next user at once, though the device may still be working on it: all work of
// a device runs on one stream, so what the next user does comes after. A graph's work beside is the
// exception, for which there is Hold.
class Pool {
 public:
  explicit Pool(Device device) : device_(device) {}

  void* allocate(std::size_t bytes) {
    const auto [size, index] = SizeClass(bytes);
    const std::scoped_lock lock(mutex_);
    ++stats_.requests;
    void* memory = nullptr;
    const PoolLease* const lease = lease_of_thread();
    if (lease != nullptr) {
      memory = take_leased(lease, index);
      if (memory != nullptr) {
        return memory;
      }
    }
    if (auto& blocks = free_[index]; !blocks.empty()) {
      memory = blocks.back();
      blocks.pop_back();
      stats_.held -= size;
      ++stats_.reused;
    } else {
      memory = backend(device_.type).allocate(device_.index, size);
      if (memory == nullptr) {
        const std::size_t held = stats_.held;
        trim_locked();
        memory = backend(device_.type).allocate(device_.index, size);
        if (memory == nullptr) {
          refuse(bytes, held);
        }
      }
    }
    stats_.in_use += size;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
    if (lease != nullptr) {
      leased_.emplace(memory, Leased{lease, index, size, Leased::used});
    }
    return memory;
  }

  void release(void* memory, std::size_t bytes) noexcept {
    const auto [size, index] = SizeClass(bytes);
    const std::scoped_lock lock(mutex_);
    if (keep_leased(memory, index, size)) {
      return;
    }
    stats_.in_use -= size;
    give_back(memory, index, size);
  }

  void let_go(const PoolLease* lease) {
    const std::scoped_lock lock(mutex_);
    for (auto& [memory, block] : leased_) {
      if (block.lease == lease && block.state == Leased::held) {
        block.state = Leased::free;
      }
    }
  }

  /// The end of a lease.
  void end(const PoolLease* lease) noexcept {
    const std::scoped_lock lock(mutex_);
    for (auto at = leased_.begin(); at != leased_.end();) {
      const Leased& block = at->second;
      if (block.lease != lease) {
        ++at;
        continue;
      }
      if (block.state != Leased::used) {
        stats_.in_use -= block.size;
        give_back(at->first, block.index, block.size);
      }
      at = leased_.erase(at);
    }
  }

  PoolStats stats() {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::scoped_lock lock(mutex_);
    stats_.peak_in_use = stats_.in_use;
  }
  void trim() {
    const std::scoped_lock lock(mutex_);
    trim_locked();
  }

 private:
  [[noreturn]] void refuse(std::size_t bytes, std::size_t held) const {
    const auto [free, total] = backend(device_.type).memory(device_.index);
    throw Error(text(device_, " out of memory: asked for ", bytes, " bytes; ", free, " of ", total,
                     " bytes are free on the device, ", stats_.in_use,
                     " bytes are in use by tensors, ", held,
                     " bytes held free were given back first"));
  }

  const PoolLease* lease_of_thread() const {
    return leasing != nullptr && leasing->device() == device_ ? leasing : nullptr;
  }

  struct Leased {
    const PoolLease* lease;
    std::size_t index;
    std::size_t size;
    enum State : std::uint8_t { used, held, free } state;
  };

  void* take_leased(const PoolLease* lease, std::size_t index) {
    for (auto& [memory, block] : leased_) {
      if (block.lease == lease && block.index == index && block.state == Leased::free) {
        block.state = Leased::used;
        ++stats_.reused;
        return memory;
      }
    }
    return nullptr;
  }

  // Whether a block that is released stays with a lease: it was taken from one, or recorded work
  // may have used it.
  bool keep_leased(void* memory, std::size_t index, std::size_t size) noexcept {
    const PoolLease* const lease = lease_of_thread();
    const auto state = lease != nullptr && holding ? Leased::held : Leased::free;
    if (const auto found = leased_.find(memory); found != leased_.end()) {
      found->second.state = state;
      return true;
    }
    if (lease == nullptr) {
      return false;
    }
    leased_.emplace(memory, Leased{lease, index, size, state});
    return true;
  }

  void give_back(void* memory, std::size_t index, std::size_t size) noexcept {
    if (!reuse_) {
      backend(device_.type).release(device_.index, memory);
      return;
    }
    try {
      free_[index].push_back(memory);
      stats_.held += size;
    } catch (...) {  // no memory for the list itself: the block goes back to the system
      backend(device_.type).release(device_.index, memory);
    }
  }

  void trim_locked() {
    for (auto& blocks : free_) {
      for (void* block : blocks) {
        backend(device_.type).release(device_.index, block);
      }
      blocks.clear();
    }
    stats_.held = 0;
  }

  Device device_;
  std::map<void*, Leased> leased_;
  bool reuse_ = !reuse_is_off();
  std::mutex mutex_;
  PoolStats stats_;
  std::array<std::vector<void*>, size_classes> free_;
};

// Pools are never destroyed: a tensor with static lifetime may be released after any of our own
// static objects.
Pool& pool(Device device) {
  static auto& mutex = *new std::mutex;
  static auto& pools = *new std::map<std::pair<DeviceType, int>, std::unique_ptr<Pool>>;
  static Pool& cpu = *new Pool(Device::cpu());
  if (device == Device::cpu()) {
    return cpu;
  }
  const std::scoped_lock lock(mutex);
  auto& entry = pools[{device.type, device.index}];
  if (!entry) {
    entry = std::make_unique<Pool>(device);
  }
  return *entry;
}

}  // namespace

PoolStats pool_stats(Device device) { return pool(device).stats(); }
void reset_peak(Device device) { pool(device).reset_peak(); }
void pool_trim(Device device) { pool(device).trim(); }
void* pool_allocate(Device device, std::size_t bytes) { return pool(device).allocate(bytes); }
void pool_release(Device device, void* memory, std::size_t bytes) noexcept {
  pool(device).release(memory, bytes);
}

PoolLease::~PoolLease() { pool(device_).end(this); }
void PoolLease::let_go() { pool(device_).let_go(this); }
PoolLease::Scope::Scope(PoolLease* lease) : outer_(std::exchange(leasing, lease)) {}
PoolLease::Scope::~Scope() { leasing = outer_; }
PoolLease::Hold::Hold() : outer_(std::exchange(holding, true)) {}
PoolLease::Hold::~Hold() { holding = outer_; }

}  // namespace sinter
