// Sums of all elements, and over any dimensions.
#include <type_traits>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/sums.cuh>
#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {
namespace {

template <class T>
struct Element {
  const T* x;
  __device__ double operator()(std::int64_t i) const { return static_cast<double>(to_float(x[i])); }
};

template <class T>
struct StoreSum {
  T* y;
  bool accumulate;
  __device__ void operator()(double sum) const {
    const double start = accumulate ? static_cast<double>(to_float(*y)) : 0.0;
    *y = from_float<T>(static_cast<float>(start + sum));
  }
};

__device__ std::int64_t offset_of(const Dimensions& of, std::int64_t i) {
  std::int64_t offset = 0;
  for (int d = of.rank - 1; d >= 0; --d) {
    offset += i % of.size[d] * of.stride[d];
    i /= of.size[d];
  }
  return offset;
}

constexpr int dimension_block = 256;

// A team for each element of the result.
template <class T, int threads>
__global__ void __launch_bounds__(dimension_block)
    sum_dimensions_kernel(const T* x, const Dimensions kept, const Dimensions summed, T* y,
                          bool accumulate) {
  using Group = Team<threads>;
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.x) * (dimension_block / threads) + Group::index();
  if (i >= kept.count) {
    return;
  }
  x += offset_of(kept, i);
  double sum = 0;
  for (std::int64_t k = Group::rank(); k < summed.count; k += threads) {
    sum += static_cast<double>(to_float(x[offset_of(summed, k)]));
  }
  sum = Group::sum(sum);
  if (Group::rank() == 0) {
    StoreSum<T>{y + i, accumulate}(sum);
  }
}

}  // namespace

template <class T>
void sum_all(int device, const T* x, std::int64_t n, T* y, bool accumulate) {
  run_sum(device, n, Element<T>{x}, StoreSum<T>{y, accumulate});
}

template <class T>
void sum_dimensions(int device, const T* x, const Dimensions& kept, const Dimensions& summed, T* y,
                    bool accumulate) {
  if (kept.count == 0) {
    return;
  }
  const auto launch = [&]<int threads>(std::integral_constant<int, threads>) {
    constexpr std::int64_t teams = dimension_block / threads;
    const auto blocks = static_cast<unsigned>((kept.count + teams - 1) / teams);
    sum_dimensions_kernel<T, threads>
        <<<blocks, dimension_block, 0, use(device)>>>(x, kept, summed, y, accumulate);
    check(cudaGetLastError(), "sum_dimensions_kernel");
  };
  // A single thread reads memory in order if neighbours among the results are neighbours in x.
  const bool side_by_side = kept.rank > 0 && kept.stride[kept.rank - 1] == 1;
  constexpr std::int64_t worth_a_block = 1024;
  if (summed.count >= worth_a_block) {
    launch(std::integral_constant<int, dimension_block>{});
  } else if (side_by_side) {
    launch(std::integral_constant<int, 1>{});
  } else {
    launch(std::integral_constant<int, 32>{});
  }
}

template void sum_all(int, const SINTER_STORAGE*, std::int64_t, SINTER_STORAGE*, bool);
template void sum_dimensions(int, const SINTER_STORAGE*, const Dimensions&, const Dimensions&,
                             SINTER_STORAGE*, bool);

}  // namespace sinter::cuda
