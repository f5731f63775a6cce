// Sums of any number of terms in one launch, in an order that depends on their number only.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/last_block.cuh>
#include <sinter/kernels/cuda/teams.cuh>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda {
namespace detail {

inline constexpr int sum_threads = 256;
inline constexpr int most_sum_blocks = 256;
using SumTeam = Team<sum_threads>;

// Each block sums every gridDim.x-th run of terms; the last one to finish adds up the blocks.
template <class Term, class Finish>
__global__ void __launch_bounds__(sum_threads)
    sum_kernel(std::int64_t n, const Term term, double* partial, const Finish finish) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * sum_threads;
  double sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x; i < n;
       i += step) {
    sum += term(i);
  }
  sum = SumTeam::sum(sum);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) {
      partial[blockIdx.x] = sum;
    }
    if (!is_last_block(gridDim.x)) {
      return;
    }
    static_assert(most_sum_blocks <= sum_threads);
    sum = SumTeam::sum(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0);
  }
  if (threadIdx.x == 0) {
    finish(sum);
  }
}

}  // namespace detail

/// Calls finish(sum of term(i) for i in [0, n)) in one thread of the device, on its stream. A term
/// may write what is its own.
template <class Term, class Finish>
void run_sum(int device, std::int64_t n, const Term& term, const Finish& finish) {
  constexpr std::int64_t terms_of_block = 8 * detail::sum_threads;
  constexpr std::int64_t most = detail::most_sum_blocks;
  const std::int64_t wanted = (n + terms_of_block - 1) / terms_of_block;
  const std::int64_t blocks = wanted < 1 ? 1 : wanted < most ? wanted : most;
  const Tensor partial = Tensor::empty({blocks}, DType::float64, Device::cuda(device));
  detail::sum_kernel<<<static_cast<unsigned>(blocks), detail::sum_threads, 0, use(device)>>>(
      n, term, partial.raw<double>(), finish);
  check(cudaGetLastError(), "sum_kernel");
}

}  // namespace sinter::cuda
