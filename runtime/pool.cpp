#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

// Eight sizes for each power of two: at most an eighth of a block is unused, and blocks of nearly
// equal size serve one another.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) {
    return smallest;
  }
  const std::size_t step = std::max(std::bit_floor(bytes - 1) / 8, smallest);
  return (bytes + step - 1) / step * step;
}

bool reuse_is_off() {
  const char* wanted = std::getenv("SINTER_POOL");
  return wanted != nullptr && std::string_view(wanted) == "off";
}

class Pool {
 public:
  explicit Pool(Device device) : device_(device) {}

  void* allocate(std::size_t bytes) {
    // No device has half of what a size_t counts, and beyond it the size class would overflow.
    const std::size_t size = size_class(std::min(bytes, SIZE_MAX / 2));
    const std::scoped_lock lock(mutex_);
    ++stats_.requests;
    void* memory = nullptr;
    if (auto& blocks = free_[size]; !blocks.empty()) {
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
        check(memory != nullptr, device_, " out of memory: asked for ", bytes, " bytes; ",
              stats_.in_use, " bytes in use by tensors, ", held,
              " bytes held free were given back first");
      }
    }
    stats_.in_use += size;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
    return memory;
  }

  void release(void* memory, std::size_t bytes) noexcept {
    const std::size_t size = size_class(bytes);
    const std::scoped_lock lock(mutex_);
    stats_.in_use -= size;
    if (!reuse_) {
      backend(device_.type).release(device_.index, memory);
      return;
    }
    try {
      free_[size].push_back(memory);
      stats_.held += size;
    } catch (...) {  // no memory for the list itself: the block goes back to the system
      backend(device_.type).release(device_.index, memory);
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
  void trim_locked() {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) {
        backend(device_.type).release(device_.index, block);
      }
      blocks.clear();
    }
    stats_.held = 0;
  }

  Device device_;
  bool reuse_ = !reuse_is_off();
  std::mutex mutex_;
  PoolStats stats_;
  std::unordered_map<std::size_t, std::vector<void*>> free_;
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

}  // namespace sinter
