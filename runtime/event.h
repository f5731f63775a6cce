// A point in a device's work: to wait for it, and to time what lies between two of them.
#pragma once

#include <sinter/runtime/device.h>

namespace sinter {

/// Marks the moment when the device has done all work that it was given before record(). On the CPU
/// and the fake device that is the moment of the call.
class Event {
 public:
  /// Throws Error where the device cannot be used.
  explicit Event(Device device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  Device device() const { return device_; }
  /// Marks the present end of the device's work; again, to mark a later one. Throws Error while a
  /// graph is captured.
  void record();
  /// Waits until the device has come to the mark. Throws Error if there is none or while a graph is
  /// captured.
  void synchronize() const;
  /// From `earlier` to this one, negative if it was the other way round; waits for both. Throws
  /// Error for events of different devices, and what synchronize() throws.
  double milliseconds_since(const Event& earlier) const;

 private:
  Device device_;
  void* handle_ = nullptr;
  bool recorded_ = false;
};

}  // namespace sinter
