// How one launch does what needs the work of all its blocks: the last of them to finish goes on.
#pragma once

namespace sinter::cuda {
namespace detail {
// How many blocks of the running launch have come to is_last_block, for each side of a graph: a
// device has one stream, and what runs beside it (Graph::beside), one after the other, are gathers,
// which say so. So launches that share a count do not overlap.
static __device__ unsigned arrived_blocks[2];
}  // namespace detail

/// For one thread of each of `blocks` blocks: whether it is the last to come here. Fences are the
/// caller's. `side`: 1 for a launch beside others, else 0.
static __device__ bool comes_last(unsigned blocks, int side = 0) {
  if (atomicAdd(&detail::arrived_blocks[side], 1u) != blocks - 1) {
    return false;
  }
  detail::arrived_blocks[side] = 0;
  return true;
}

/// For all threads of `blocks` blocks: whether theirs is the last to come here. What the others
/// wrote before they came is there for it.
static __device__ bool is_last_block(unsigned blocks, int side = 0) {
  __shared__ bool is_last;
  if (blocks > 1) {
    __threadfence();
  }
  __syncthreads();
  if (blocks == 1) {
    return true;
  }
  if (threadIdx.x == 0) {
    is_last = comes_last(blocks, side);
  }
  __syncthreads();
  if (is_last) {
    __threadfence();
  }
  return is_last;
}

}  // namespace sinter::cuda
