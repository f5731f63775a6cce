// How a kernel tells of a label or an index that is out of range. It cannot throw, so it notes the
// first one; while a graph is recorded the note is the graph's, otherwise it is read after the
// launch.
#pragma once

#include <cstdint>
#include <optional>

#include <sinter/kernels/faults.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda {

/// For kernels: int64 [3] as in Graph::fault().
struct FaultNote {
  std::int64_t* words;
  /// A graph's note: one that is there already stays. Otherwise the words hold nothing yet and are
  /// written in any case.
  bool is_kept;
};

/// The note of one call.
class FaultPlace {
 public:
  explicit FaultPlace(Device device);
  FaultNote note() const;
  /// What the launches so far have noted. Nothing while a graph is recorded: who replays it will
  /// look.
  std::optional<Fault> found() const;

 private:
  Tensor words_;
  bool is_kept_;
};

}  // namespace sinter::cuda
