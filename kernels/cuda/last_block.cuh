// How one launch does what needs the work of all its blocks: the last of them to finish goes on.
#pragma once

namespace sinter::cuda {
namespace detail {
// How many blocks of the running launch have come to is_last_block. Launches of one file that count
// do not overlap: a device has one stream, and what runs beside it (Graph::beside) are gathers, one
// after the other.
static __device__ unsigned arrived_blocks;
}  // namespace detail

/// For one thread of each of `blocks` blocks: whether it is the last to come here. Fences are the
/// caller's.
static __device__ bool comes_last(unsigned blocks) {
  if (atomicAdd(&detail::arrived_blocks, 1u) != blocks - 1) {
    return false;
  }
  detail::arrived_blocks = 0;
  return true;
}

/// For all threads of `blocks` blocks: whether theirs is the last to come here. What the others
/// wrote before they came is there for it.
static __device__ bool is_last_block(unsigned blocks) {
  __shared__ bool is_last;
  if (blocks > 1) {
    __threadfence();
  }
  __syncthreads();
  if (blocks == 1) {
    return true;
  }
  if (threadIdx.x == 0) {
    is_last = comes_last(blocks);
  }
  __syncthreads();
  if (is_last) {
    __threadfence();
  }
  return is_last;
}

}  // namespace sinter::cuda
