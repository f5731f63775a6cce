// Neighbouring elements of a tensor as floats.
#pragma once

#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {

/// Whole vectors, or one element where a tensor does not lie on them.
template <class T, int count>
struct Part {
  float value[count];

  __device__ static Part load_from(const T* from) {
    Part part;
    if constexpr (count > 1) {
#pragma unroll
      for (int first = 0; first < count; first += width<T>) {
        const Vector<T> vector = load(from + first);
#pragma unroll
        for (int e = 0; e < width<T>; ++e) {
          part.value[first + e] = vector.value[e];
        }
      }
    } else {
      part.value[0] = to_float(*from);
    }
    return part;
  }
  __device__ void store_to(T* to) const {
    if constexpr (count > 1) {
#pragma unroll
      for (int first = 0; first < count; first += width<T>) {
        Vector<T> vector;
#pragma unroll
        for (int e = 0; e < width<T>; ++e) {
          vector.value[e] = value[first + e];
        }
        store(to + first, vector);
      }
    } else {
      *to = from_float<T>(value[0]);
    }
  }
};

}  // namespace sinter::cuda
