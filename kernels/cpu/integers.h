// Class numbers and indices, of whichever type they come in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter::cpu {

/// The elements of an int64, int32 or uint8 tensor.
inline std::vector<std::int64_t> read_integers(const Tensor& tensor) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(tensor.numel()));
  const auto copy = [&](const auto* from) { std::copy_n(from, out.size(), out.begin()); };
  switch (tensor.dtype()) {
    case DType::int64:
      copy(tensor.raw<std::int64_t>());
      break;
    case DType::int32:
      copy(tensor.raw<std::int32_t>());
      break;
    default:
      copy(tensor.raw<std::uint8_t>());
      break;
  }
  return out;
}

}  // namespace sinter::cpu
