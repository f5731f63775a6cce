// Class numbers and indices, of whichever type they come in.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/kernels.h>

namespace sinter::cuda {

struct IntegerValues {
  Integers integers;
  __device__ std::int64_t operator[](std::int64_t i) const {
    switch (integers.dtype) {
      case DType::int64:
        return static_cast<const std::int64_t*>(integers.data)[i];
      case DType::int32:
        return static_cast<const std::int32_t*>(integers.data)[i];
      default:
        return static_cast<const std::uint8_t*>(integers.data)[i];
    }
  }
};

}  // namespace sinter::cuda
