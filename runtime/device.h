// Where bytes live and kernels run, and how a caller picks a device.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace sinter {

/// `fake` is a device of host memory without kernels: it tests dispatch, copies and the
/// fallback on machines without a GPU.
enum class DeviceType : std::uint8_t { cpu, cuda, fake };
inline constexpr int device_type_count = 3;

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {DeviceType::cuda, index}; }
  static Device fake() { return {DeviceType::fake, 0}; }
  /// The fastest device that can run our kernels; see best_device() for why. Never throws.
  static Device best();
  /// "cpu", "cuda", "cuda:1", "fake" or "auto" (best()). Throws Error for anything else and for a
  /// device that this machine or this build does not have.
  static Device parse(std::string_view text);

  /// "cpu", "cuda:0", "fake"
  std::string str() const;
  bool operator==(const Device&) const = default;
};

std::ostream& operator<<(std::ostream& out, Device device);

/// A device and one clause on why it was taken, for a program's first line.
struct DeviceChoice {
  Device device;
  std::string reason;
};
DeviceChoice best_device();

/// Whether `device` can be used. Merely asking never throws.
bool is_available(Device device);
/// Throws Error with the reason where it cannot.
void require_available(Device device);

/// Waits until all work given to `device` is done.
void synchronize(Device device);

}  // namespace sinter
