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
    value = all_in_turn(0, value, combine);
    if constexpr (threads > 32) {
      __syncthreads();  // the next call writes there again
    }
    return value;
  }

  /// The same with one barrier in place of two, for callers that pass 0 and 1 in turn.
  template <class V, class Combine>
  __device__ static V all_in_turn(int turn, V value, Combine combine) {
    if constexpr (threads > 1) {
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) {
        value = combine(value, from_lane_xor(value, mask));
      }
    }
    if constexpr (threads > 32) {
      __shared__ V of_warp[2][threads / 32];
      if (threadIdx.x % 32 == 0) {
        of_warp[turn][threadIdx.x / 32] = value;
      }
      __syncthreads();
      value = of_warp[turn][0];
      for (int warp = 1; warp < threads / 32; ++warp) {
        value = combine(value, of_warp[turn][warp]);
      }
    }
    return value;
  }

  template <class V>
  __device__ static V sum(V value) {
    return all(value, [](V a, V b) { return a + b; });
  }
  template <class V>
  __device__ static V sum_in_turn(int turn, V value) {
    return all_in_turn(turn, value, [](V a, V b) { return a + b; });
  }
  /// Two sums at once, in turn as well, of a block of so many teams: each half of a warp adds up
  /// one of them.
  template <int teams>
  __device__ static float2 sums_in_turn(int turn, float a, float b) {
    static_assert(threads > 1);
    const bool upper = threadIdx.x % 32 >= 16;
    float mine = upper ? b : a;
    mine += __shfl_xor_sync(0xffffffffu, upper ? a : b, 16);
#pragma unroll
    for (int mask = 8; mask > 0; mask /= 2) {
      mine += __shfl_xor_sync(0xffffffffu, mine, mask);
    }
    if constexpr (threads == 32) {
      return {__shfl_sync(0xffffffffu, mine, 0), __shfl_sync(0xffffffffu, mine, 16)};
    } else {
      constexpr int warps = threads / 32;
      __shared__ alignas(16) float of_warp[2][teams][2][warps];
      float(&of_team)[2][warps] = of_warp[turn][index()];
      if (threadIdx.x % 16 == 0) {
        of_team[upper ? 1 : 0][rank() / 32] = mine;
      }
      static_assert(teams <= 2);
      if constexpr (teams == 1) {
        __syncthreads();
      } else if (index() == 0) {
        Barrier<1, threads>::sync();
      } else {
        Barrier<2, threads>::sync();
      }
      float2 sums{0, 0};
#pragma unroll
      for (int warp = 0; warp < warps; ++warp) {
        sums.x += of_team[0][warp];
        sums.y += of_team[1][warp];
      }
      return sums;
    }
  }
  template <class V>
  __device__ static V smallest(V value) {
    return all(value, [](V a, V b) { return b < a ? b : a; });
  }
};

}  // namespace sinter::cuda
