// Which kernels a device runs, seen by CUPTI, inside replays of graphs too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

struct Kernel {
  std::string name;  ///< demangled, or "copy", "set"
  std::int64_t count = 0;
  double us = 0;  ///< of all of them
};

struct Profile {
  std::vector<Kernel> kernels;  ///< those that took longest first
  double us = 0;                ///< from the first one's start to the last one's end
};

/// The kernels of `work`, which ends with the device idle. `prepare` comes before it and records
/// the graphs that `work` replays. Throws sinter::Error where CUPTI fails or was not there when
/// this was built.
Profile profile_kernels(const std::function<void()>& prepare, const std::function<void()>& work);

}  // namespace bench
