// Which of a kernel's two launch shapes is the faster one on this device: timed at first use, kept
// for the process and, in the user's cache folder, for the next one. Results never depend on it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <sinter/runtime/capture.h>
#include <sinter/runtime/device.h>

namespace sinter {

/// A function that takes a shape and enqueues the kernel with it, for the length of one call.
class LaunchRef {
 public:
  template <class Launch>
  LaunchRef(const Launch& launch)
      : object_(&launch),
        call_([](const void* object, int shape) { (*static_cast<const Launch*>(object))(shape); }) {
  }
  void operator()(int shape) const { call_(object_, shape); }

 private:
  const void* object_;
  void (*call_)(const void*, int);
};

/// What is known of one kernel; a static object for each.
class LaunchChoice {
 public:
  /// Tensors with fewer elements take the default unseen: the time of small ones is the launch's,
  /// and those that fit the cache of a GPU would be timed there, not in memory.
  static constexpr std::int64_t smallest = std::int64_t{1} << 24;
  /// Larger ones are told apart at these numbers.
  static constexpr std::int64_t larger = std::int64_t{1} << 25;
  static constexpr std::int64_t largest = std::int64_t{1} << 26;

  /// The shape to launch with, 0 or 1, for `n` elements on `device`. `name` is the kernel's, in
  /// words that are joined when it is needed: op, activation, type, dropout. Where nothing is known
  /// yet, `launch` is called several times for each shape, if it may be: `repeatable` says that no
  /// output is an input too. Throws what `launch` throws.
  int pick(Device device, std::int64_t n, std::initializer_list<std::string_view> name,
           int default_shape, bool repeatable, LaunchRef launch) {
    if (const int forced = forced_shape.load(std::memory_order_relaxed); forced >= 0) [[unlikely]] {
      return forced;
    }
    if (n < smallest || device.index >= devices) {
      return default_shape;
    }
    const int size_class = (n >= larger) + (n >= largest);
    const int known = known_[device.index][size_class].load(std::memory_order_relaxed);
    if (known == shape_0 || known == shape_1) [[likely]] {
      return known - shape_0;
    }
    if (is_capturing() || (known == not_stored && !repeatable)) {
      return default_shape;
    }
    return find(device, size_class, name, default_shape, repeatable, launch);
  }

 private:
  friend class ForcedShape;
  static constexpr int devices = 16;  // more take the default
  enum : std::uint8_t { unknown, not_stored, shape_0, shape_1 };

  int find(Device device, int size_class, std::initializer_list<std::string_view> name,
           int default_shape, bool repeatable, LaunchRef launch);

  static constinit std::atomic<int> forced_shape;
  std::array<std::array<std::atomic<std::uint8_t>, 3>, devices> known_{};
};

/// Makes every kernel take one shape, whatever the size, while it lives: for tests and benchmarks.
/// It holds for all threads.
class ForcedShape {
 public:
  explicit ForcedShape(int shape) : before_(LaunchChoice::forced_shape.exchange(shape)) {}
  ~ForcedShape() { LaunchChoice::forced_shape = before_; }
  ForcedShape(const ForcedShape&) = delete;
  ForcedShape& operator=(const ForcedShape&) = delete;

 private:
  int before_;
};

namespace detail {

/// The shape to keep after several timings of each, in any unit: the other one must beat the
/// default by more than 2 %, so that noise changes nothing.
int faster_shape(const std::array<double, 2>& best, int default_shape);

}  // namespace detail
}  // namespace sinter
