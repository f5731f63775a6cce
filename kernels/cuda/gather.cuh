// Rows picked by index: the skeleton of the kernels that copy or convert them.
//
// A Move says what is done with a part of a row:
//   __device__ void operator()(std::int64_t from, std::int64_t to, std::int64_t part) const;
//   __device__ void clear(std::int64_t to, std::int64_t part) const;
// where `from` is a row of the source and `to` one of the result.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/integers.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/teams.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace detail {

inline constexpr int gather_threads = 256;
inline constexpr int gather_parts = 4;  // for each thread

// A row that is not there is zeros: what is computed with it until somebody reads the note is of no
// use, but finite. The first `checkers` blocks look for such rows.
template <class Move>
__global__ void __launch_bounds__(gather_threads)
    gather_kernel(const Picked picked, std::int64_t parts_of_row, unsigned checkers,
                  const Move move) {
  const IntegerValues indices{picked.indices};
  const std::int64_t count = picked.indices.count;
  const std::int64_t parts = count * parts_of_row;
  const bool is_short = parts >> 32 == 0;  // a 64-bit division costs four times as much
  const auto is_bad = [&](std::int64_t index) { return index < 0 || index >= picked.bound; };
#pragma unroll
  for (int k = 0; k < gather_parts; ++k) {
    const std::int64_t i =
        (static_cast<std::int64_t>(blockIdx.x) * gather_parts + k) * gather_threads + threadIdx.x;
    if (i < parts) {
      const std::int64_t to =
          is_short ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(parts_of_row)
                   : i / parts_of_row;
      const std::int64_t from = indices[to];
      if (is_bad(from)) {
        move.clear(to, i - to * parts_of_row);
      } else {
        move(from, to, i - to * parts_of_row);
      }
    }
  }
  if (blockIdx.x >= checkers) {
    return;
  }
  std::int64_t bad = no_position;
  const std::int64_t step = static_cast<std::int64_t>(checkers) * gather_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * gather_threads + threadIdx.x;
       i < count && bad == no_position; i += step) {
    bad = is_bad(indices[i]) ? i : no_position;
  }
  bad = Team<gather_threads>::smallest(bad);
  if (threadIdx.x == 0) {
    see_bad(bad, picked.side);
  }
  if (is_last_block(checkers, picked.side) && threadIdx.x == 0) {
    note_bad(picked.fault, indices, picked.bound, picked.side);
  }
}

}  // namespace detail

/// Moves all parts of all rows, on the stream of `device`.
template <class Move>
void run_gather(int device, const Picked& picked, std::int64_t parts_of_row, const Move& move) {
  constexpr std::int64_t of_checker = 8 * detail::gather_threads;
  constexpr std::int64_t most_checkers = 64;
  constexpr std::int64_t of_block = detail::gather_parts * detail::gather_threads;
  const std::int64_t wanted = (picked.indices.count + of_checker - 1) / of_checker;
  const std::int64_t checkers = wanted < 1 ? 1 : wanted < most_checkers ? wanted : most_checkers;
  const std::int64_t movers = (picked.indices.count * parts_of_row + of_block - 1) / of_block;
  detail::gather_kernel<<<static_cast<unsigned>(movers < checkers ? checkers : movers),
                          detail::gather_threads, 0, use(device)>>>(
      picked, parts_of_row, static_cast<unsigned>(checkers), move);
  check(cudaGetLastError(), "gather_kernel");
}

/// Whether vectors of so many bytes reach all rows of so many.
inline bool fits(std::int64_t bytes, const void* address, std::int64_t row_bytes) {
  return row_bytes % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace sinter::cuda
