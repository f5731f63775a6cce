#pragma once

// Whether there is a GPU to test on. Every test of the CUDA device asks first, and a run without
// one must not look like one with.

#include <doctest/doctest.h>

#include <sinter/kernels/precision.h>
#include <sinter/runtime/device.h>

namespace sinter {

inline bool has_gpu() {
  const bool found = is_available(Device::cuda());
  if (!found) {
    MESSAGE("SKIPPED (no CUDA device)");
  }
  return found;
}

/// Puts back what matmul_precision() was.
struct KeepPrecision {
  MatmulPrecision before = matmul_precision();
  KeepPrecision() = default;
  ~KeepPrecision() { set_matmul_precision(before); }
  KeepPrecision(const KeepPrecision&) = delete;
  KeepPrecision& operator=(const KeepPrecision&) = delete;
};

/// float32 products with every bit while this lives, for results that are compared with the CPU's.
struct ExactProducts : KeepPrecision {
  ExactProducts() { set_matmul_precision(MatmulPrecision::highest); }
};

}  // namespace sinter
