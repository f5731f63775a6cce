#pragma once

// Whether there is a GPU to test on. Every test of the CUDA device asks first, and a run without
// one must not look like one with.

#include <doctest/doctest.h>

#include <sinter/runtime/device.h>

namespace sinter {

inline bool has_gpu() {
  const bool found = is_available(Device::cuda());
  if (!found) {
    MESSAGE("SKIPPED (no CUDA device)");
  }
  return found;
}

}  // namespace sinter
