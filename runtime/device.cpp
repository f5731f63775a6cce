#include <charconv>
#include <ostream>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/device.h>
#include <sinter/runtime/error.h>

namespace sinter {

const Backend& backend(DeviceType type) {
  switch (type) {
    case DeviceType::cuda:
      return cuda_backend;
    case DeviceType::fake:
      return fake_backend;
    case DeviceType::cpu:
      break;
  }
  return cpu_backend;
}

bool is_available(Device device) {
  return device.index >= 0 && device.index < backend(device.type).count();
}

void require_available(Device device) {
  if (is_available(device)) {
    return;
  }
  const Backend& row = backend(device.type);
  const int count = row.count();
  check(count > 0, "device ", device, " cannot be used: ", row.absent_because());
  throw Error(text("device ", device, " does not exist: ", count, " device", count == 1 ? "" : "s",
                   " of this type found, counted from 0"));
}

DeviceChoice best_device() {
  const int gpus = cuda_backend.count();
  if (gpus == 0) {
    return {Device::cpu(), cuda_backend.absent_because()};
  }
  const std::string name = cuda_backend.name(0);
  return {Device::cuda(), gpus == 1 ? text("1 CUDA device found: ", name)
                                    : text(gpus, " CUDA devices found, the first: ", name)};
}

Device Device::best() { return best_device().device; }

Device Device::parse(std::string_view name) {
  Device device;
  std::string_view rest = name;
  const auto takes = [&rest](std::string_view word) {
    if (!rest.starts_with(word)) {
      return false;
    }
    rest.remove_prefix(word.size());
    return true;
  };
  if (name == "auto") {
    return best();
  }
  if (takes("cuda")) {
    device.type = DeviceType::cuda;
  } else if (takes("fake")) {
    device.type = DeviceType::fake;
  } else {
    check(takes("cpu"), "unknown device \"", name, "\": expected auto, cpu, cuda or cuda:N");
  }
  if (!rest.empty()) {
    const char* end = rest.data() + rest.size();
    const auto [last, failure] = std::from_chars(rest.data() + 1, end, device.index);
    check(rest.front() == ':' && failure == std::errc{} && last == end && device.index >= 0,
          "unknown device \"", name, "\": expected auto, cpu, cuda or cuda:N");
  }
  require_available(device);
  return device;
}

std::string Device::str() const {
  switch (type) {
    case DeviceType::cuda:
      return text("cuda:", index);
    case DeviceType::fake:
      return "fake";
    case DeviceType::cpu:
      break;
  }
  return "cpu";
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << device.str(); }

void synchronize(Device device) {
  require_available(device);
  backend(device.type).synchronize(device.index);
}

}  // namespace sinter
