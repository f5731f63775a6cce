// Reference-counted bytes on a device, with a version that every write raises.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sinter/runtime/device.h>

namespace sinter {

/// A block from the pool, or a slice of another storage that has a version of its own: the
/// parameters of a model are slices of one flat buffer. A write to the whole counts as a write to
/// each slice; a write to a slice leaves its neighbours' versions alone.
class Storage {
 public:
  /// A block of its own. Throws Error where the device cannot be used or has no memory left.
  Storage(Device device, std::size_t bytes);
  /// Bytes [offset, offset + bytes) of `whole`, which it keeps alive.
  Storage(std::shared_ptr<Storage> whole, std::size_t offset, std::size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::shared_ptr<Storage>& whole() const { return whole_; }

  std::uint64_t version() const {
    return version_.load(std::memory_order_relaxed) + (whole_ ? whole_->version() : 0);
  }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  /// The tape that last recorded a write in place to these elements, 0 for none: on that tape only
  /// the handle which was written through stands for the value.
  std::uint64_t written_on_tape() const { return written_on_tape_; }
  void set_written_on_tape(std::uint64_t tape) { written_on_tape_ = tape; }

 private:
  Device device_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<Storage> whole_;
  std::atomic<std::uint64_t> version_{0};
  std::uint64_t written_on_tape_ = 0;
};

}  // namespace sinter
