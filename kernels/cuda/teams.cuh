// What the threads of a row or a block find out together, in an order that depends on nothing but
// how many they are.
#pragma once

#include <cstdint>
#include <type_traits>

namespace sinter::cuda {

template <class V>
__device__ V from_lane_xor(V value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}

/// A barrier for some whole warps of a block, beside number 0, which is __syncthreads(): `threads`
/// of them in all arrive, and those that sync() wait for the others.
template <int number, int threads>
struct Barrier {
  __device__ __forceinline__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(number), "n"(threads) : "memory");
  }
  __device__ __forceinline__ static void sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(number), "n"(threads) : "memory");
  }
};

/// Threads that share a row or a sum: one, a warp, or a whole block of some warps.
template <int threads>
struct Team {
  static_assert(threads == 1 || threads % 32 == 0);

  __device__ static int rank() { return static_cast<int>(threadIdx.x) % threads; }
  /// Of the team in its block.
  __device__ static int index() { return static_cast<int>(threadIdx.x) / threads; }

  /// All values combined, known to all threads. `combine` must not care which of two comes first.
  template <class V, class Combine>
  __device__ static V all(V value, Combine combine) {
    if constexpr (threads > 1) {
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) {
        value = combine(value, from_lane_xor(value, mask));
      }
    }
    if constexpr (threads > 32) {
      __shared__ V of_warp[threads / 32];
      if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = value;
      }
      __syncthreads();
      value = of_warp[0];
      for (int warp = 1; warp < threads / 32; ++warp) {
        value = combine(value, of_warp[warp]);
      }
      __syncthreads();  // the next call writes there again
    }
    return value;
  }

  template <class V>
  __device__ static V sum(V value) {
    return all(value, [](V a, V b) { return a + b; });
  }
  template <class V>
  __device__ static V smallest(V value) {
    return all(value, [](V a, V b) { return b < a ? b : a; });
  }
};

}  // namespace sinter::cuda
