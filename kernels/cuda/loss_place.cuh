// Storing a loss in the type that it is wanted in.
#pragma once

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {

template <class T>
__device__ void store_loss(const LossPlace<T>& place, std::int64_t i, float loss) {
  if (place.wide != nullptr) {
    place.wide[i] = loss;
  } else {
    place.stored[i] = from_float<T>(loss);
  }
}

}  // namespace sinter::cuda
