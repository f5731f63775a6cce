// A graph of device work: recorded once, replayed as often as wanted with one call. What changes
// from replay to replay is read from device memory, which the host fills before each one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sinter/runtime/device.h>
#include <sinter/runtime/pool.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

/// Everything that the work reads and writes has to stay where it was: tensors made while it is
/// recorded take their memory from the graph, others are for the caller to keep. What other threads
/// do on the device meanwhile is not recorded. One thread at a time may use a graph.
class Graph {
 public:
  /// Nothing recorded. Graphs whose work belongs together may share the place of their `fault`, one
  /// that no_faults() made. Throws Error for a device that records no graphs.
  explicit Graph(Device device, Tensor fault = {});
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Calls `work` and records what it gives to the device, which does none of it yet. Throws what
  /// `work` throws and Error for work that cannot be recorded; then there is nothing to replay.
  void record(const std::function<void()>& work);
  bool is_recorded() const { return handle_ != nullptr; }
  /// Kernels that one replay launches, copies not counted: how far the work is fused. 0 where
  /// nothing has been recorded.
  std::int64_t kernels() const;
  /// Whether the device records graphs.
  static bool can_record(Device device);
  /// Fills the live values and has the device do the work once more; returns before it is done.
  void replay();
  Device device() const { return device_; }

  /// The graph that this thread records, or nullptr.
  static Graph* recording();

  // For those whose work is recorded.

  /// Records what `work` gives to the device, which may do it beside what is recorded after it, up
  /// to join(): that must neither read what this writes nor the other way round, what this uses has
  /// to live until then, and it can be gathers only (ops::gather_rows, gather_normalise and
  /// embedding_forward): other kernels count their blocks in one place for both sides. What `work`
  /// throws is thrown.
  void beside(const std::function<void()>& work);
  /// Whether what is recorded now goes beside other work.
  bool is_beside() const { return in_branch_; }
  /// What is recorded from here on comes after the work beside.
  void join();

  /// Elements on the device that `write` gives anew before each replay, as many bytes as there are.
  Tensor live(const Shape& shape, DType dtype, std::function<void(std::span<std::byte>)> write);
  /// `restore` is called when recording ends, well or not, last one first: what recording did to
  /// the host's state has not happened yet.
  void when_recorded(std::function<void()> restore);
  /// `advance` is called after each replay: what the work did to the host's state happened again.
  void when_replayed(std::function<void()> advance);
  /// How far a count on the host, known by an address, has come since this recording first met it
  /// at `now`; `is_new` says whether that is this time.
  std::uint64_t advanced(const void* counter, std::uint64_t now, bool& is_new);
  /// Elements of `tensor` are written by the work: each replay raises the version of its storage.
  void writes(const Tensor& tensor);
  /// int64 [3] on the device, where kernels note a bad input, since they cannot throw: the position
  /// of the first (no_fault while there is none), its value, and the bound that it breaks. Updates
  /// of parameters do nothing from then on.
  const Tensor& fault() const { return fault_; }
  static constexpr std::int64_t no_fault = INT64_MAX;
  static Tensor no_faults(Device device);
  /// Waits for the device and returns what is noted at such a place, if anything; it is cleared.
  static std::optional<std::array<std::int64_t, 3>> take_fault(Tensor& fault);

 private:
  /// Live values lie in few blocks, each of which one copy brings to the device.
  struct Block {
    Tensor device;
    std::vector<std::byte> host;
    std::size_t used = 0;
  };
  struct Live {
    std::size_t block;
    std::size_t offset;
    std::size_t bytes;
    std::function<void(std::span<std::byte>)> write;
  };

  Device device_;
  PoolLease lease_;
  void* handle_ = nullptr;
  bool has_branch_ = false;
  bool in_branch_ = false;
  Tensor fault_;
  std::vector<Block> blocks_;
  std::vector<Live> live_;
  std::vector<std::function<void()>> restore_;
  std::vector<std::function<void()>> advance_;
  std::map<const void*, std::uint64_t> counters_;
  std::vector<std::weak_ptr<Storage>> written_;
};

}  // namespace sinter
