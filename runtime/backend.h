// What the runtime asks of a device: a row of functions, one row for each device type. Kernels are
// not here; they are in the op table (kernels/ops.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sinter/runtime/device.h>

namespace sinter {

struct Backend {
  struct Memory {
    std::size_t free = 0;
    std::size_t total = 0;
  };

  /// Usable devices of this type, 0 where there is no driver, no device or no support built in.
  int (*count)();
  /// Why count() is 0, as a clause that completes "no CUDA device: ...".
  std::string (*absent_because)();
  /// The product's name, such as "NVIDIA H200".
  std::string (*name)(int index);
  /// The versions that measured speeds depend on: of the driver, and of what compiled the kernels.
  std::string (*versions)();
  /// Bytes of the whole device, whoever uses them.
  Memory (*memory)(int index);
  /// Memory aligned to 256 bytes, or nullptr where there is none left.
  void* (*allocate)(int index, std::size_t bytes);
  void (*release)(int index, void* memory) noexcept;
  /// Both host copies are done with the host's memory when they return; what comes to the device is
  /// there for all work that is given to it later.
  void (*copy_from_host)(int index, void* to, const void* from, std::size_t bytes);
  void (*copy_to_host)(int index, void* to, const void* from, std::size_t bytes);
  void (*copy)(int index, void* to, const void* from, std::size_t bytes);
  /// Writes `count` copies of the `size` (1, 2, 4 or 8) bytes at `value`.
  void (*fill)(int index, void* to, const void* value, std::size_t size, std::size_t count);
  void (*synchronize)(int index);
  /// Points in the device's work, for Event (runtime/event.h).
  void* (*make_event)(int index);
  void (*release_event)(int index, void* event) noexcept;
  void (*record_event)(int index, void* event);
  void (*synchronize_event)(int index, void* event);
  /// Between two events that have happened.
  double (*milliseconds)(int index, void* from, void* to);
  /// For Graph (runtime/graph.h); null where the device records no graphs. From begin to end what
  /// this thread gives to the device is recorded, not done; end returns it, or null unless `keep`.
  void (*begin_capture)(int index);
  void* (*end_capture)(int index, bool keep);
  void (*replay_graph)(int index, void* graph);
  void (*release_graph)(int index, void* graph) noexcept;
  /// Kernels that one replay launches.
  std::int64_t (*kernels_of_graph)(void* graph);
  /// From begin to end of a branch, what is recorded may be done beside what is recorded after it,
  /// up to join; null where everything is done in turn.
  void (*begin_branch)(int index);
  void (*end_branch)(int index);
  void (*join_branch)(int index);
};

const Backend& backend(DeviceType type);

/// The rows. cuda_backend comes from runtime/cuda, or from runtime/cuda/absent.cpp where sinter is
/// built without CUDA.
extern const Backend cpu_backend;
extern const Backend cuda_backend;
extern const Backend fake_backend;

/// What the fake device has been asked for since the last reset, for tests.
struct FakeDeviceCounts {
  int allocations = 0;
  int releases = 0;
  int copies_from_host = 0;
  int copies_to_host = 0;
  std::size_t bytes_copied = 0;
};
FakeDeviceCounts fake_device_counts();
void reset_fake_device_counts();

}  // namespace sinter
