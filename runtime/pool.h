// The allocator behind every tensor: freed blocks are kept by size and handed out again, so that a
// training loop asks the system for memory in its first step only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sinter/runtime/device.h>

namespace sinter {

struct PoolStats {
  std::size_t in_use = 0;       ///< bytes in blocks that are handed out
  std::size_t held = 0;         ///< bytes in free blocks kept for reuse
  std::size_t peak_in_use = 0;  ///< largest in_use since the start or the last reset_peak
  std::uint64_t requests = 0;   ///< blocks asked for
  std::uint64_t reused = 0;     ///< of those, served without asking the system
};

PoolStats pool_stats(Device device);
void reset_peak(Device device);
/// Gives every free block back to the system.
void pool_trim(Device device);

/// A block of at least `bytes`, aligned to 256. Work that an earlier owner gave to the device may
/// still be running on it: use it on the device's own stream only. Throws Error with the bytes
/// asked for, free on the device, in use and held where the device has no more even after free
/// blocks were given back. With SINTER_POOL=off every request goes to the system and back, for
/// memory checkers.
void* pool_allocate(Device device, std::size_t bytes);
/// `bytes` as it was asked for.
void pool_release(Device device, void* memory, std::size_t bytes) noexcept;

/// Blocks that belong to a graph, which writes to them whenever it is replayed: while a scope
/// lives, what its thread takes comes from them and returns to them. They go back to the pool with
/// the lease; a block that is still in use then does so when it is released.
class PoolLease {
 public:
  explicit PoolLease(Device device) : device_(device) {}
  ~PoolLease();
  PoolLease(const PoolLease&) = delete;
  PoolLease& operator=(const PoolLease&) = delete;

  Device device() const { return device_; }

  /// What was released while a Hold lived may be handed out again.
  void let_go();

  class Scope {
   public:
    /// nullptr: what the thread takes comes from the pool itself, within another scope too.
    explicit Scope(PoolLease* lease);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PoolLease* outer_;
  };
  /// What the thread releases to its lease while it lives is not handed out again before let_go():
  /// work that is done beside that of its next user may still need it.
  class Hold {
   public:
    Hold();
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    bool outer_;
  };

 private:
  Device device_;
};

}  // namespace sinter
