// A kernel's side of kernels/cuda/faults.h: blocks tell of the bad positions that they see, and the
// last of them notes the smallest.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/faults.h>
#include <sinter/kernels/cuda/last_block.cuh>

namespace sinter::cuda {

inline constexpr std::int64_t no_position = INT64_MAX;  // Graph::no_fault

namespace detail {
// Of the running launch on each side: see last_block.cuh.
static __device__ unsigned long long smallest_bad[2] = {INT64_MAX, INT64_MAX};
}  // namespace detail

/// For one thread of each block, before is_last_block(): the smallest bad position that the block
/// saw, or no_position.
static __device__ void see_bad(std::int64_t position, int side = 0) {
  if (position != no_position) {
    atomicMin(&detail::smallest_bad[side], static_cast<unsigned long long>(position));
  }
}

/// For one thread of the last block.
template <class Values>
static __device__ void note_bad(const FaultNote& note, const Values& values, std::int64_t bound,
                                int side = 0) {
  const auto position = static_cast<std::int64_t>(
      atomicExch(&detail::smallest_bad[side], static_cast<unsigned long long>(no_position)));
  if (!note.is_kept) {
    note.words[0] = position;
  } else if (position == no_position || atomicCAS(reinterpret_cast<unsigned long long*>(note.words),
                                                  static_cast<unsigned long long>(no_position),
                                                  static_cast<unsigned long long>(position)) !=
                                            static_cast<unsigned long long>(no_position)) {
    return;  // the first one stays, though two sides note at once
  }
  if (position != no_position) {
    note.words[1] = values[position];
    note.words[2] = bound;
  }
}

}  // namespace sinter::cuda
