// Layer and RMS normalisation of rows, and what stands behind them. A row stays in the registers of
// its team between the statistics and what is made of them.
#include <sinter/kernels/cuda/norm.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// Calls change(z, its place in the tensor) for a thread's vectors of a row from `first` to `last`
// - 1, and stores what becomes of z. x comes from a cache a second time: that takes one loop, where
// vectors in registers would have to be unrolled.
template <class T, int threads, int unrolled, class Call, class Change>
__device__ __forceinline__ void store_again(const Call& call, std::int64_t row, float mean,
                                            float rstd, int first, int last, Change change) {
#pragma unroll unrolled
  for (int v = first; v < last; ++v) {
    const std::int64_t column = RowValues<T, threads, 1>::place(v);
    if (column < call.columns) {
      const std::int64_t at = row * call.columns + column;
      Vector<T> z = z_of(call, column, load(call.x + at), mean, rstd);
      change(v - first, z);
      store(call.y + at, z);
    }
  }
}

// Some vectors of a row, by the type of the activation behind the norm.
template <class T, int threads, class Tail>
struct GoThrough {
  const NormTask<NormForward<T>, Tail>& call;
  std::int64_t row;
  float mean, rstd;
  int first, last;
  std::uint32_t kept;

  template <class A>
  __device__ __forceinline__ void operator()() const {
    const A act = Parameters<A>(call.tail.act.value).activation();
    store_again<T, threads, 1>(call, row, mean, rstd, first, last, [&](int v, Vector<T>& z) {
#pragma unroll
      for (int e = 0; e < width<T>; ++e) {
        const float y = act.forward(Number<T>(z.value[e])).value * call.tail.scale;
        z.value[e] = (kept >> (v * width<T> + e) & 1) != 0 ? y : 0.0f;
      }
    });
  }
};

template <class T, int threads, int vectors, class Tail>
__device__ void store_through_tail(const NormTask<NormForward<T>, Tail>& call, std::int64_t row,
                                   float mean, float rstd) {
  constexpr int at_a_time = vectors < 32 / width<T> ? vectors : 32 / width<T>;
#pragma unroll 1
  for (int first = 0; first < vectors; first += at_a_time) {
    const std::uint32_t kept =
        kept_of_row<T, threads, at_a_time>(call.tail.mask, row * call.columns, first);
    tile::with_chosen(call.tail.act, GoThrough<T, threads, Tail>{call, row, mean, rstd, first,
                                                                 first + at_a_time, kept});
  }
}

// 32 warps a multiprocessor where a thread's part of a row is small enough.
template <class T, int threads, int vectors>
inline constexpr int least_blocks = threads == 256 && vectors* width<T> <= 16 ? 4 : 1;

template <class T, int threads, int vectors, class Tail>
__global__ void __launch_bounds__(row_block<threads>, least_blocks<T, threads, vectors>)
    norm_kernel(const NormTask<NormForward<T>, Tail> call) {
  using Group = Team<threads>;
  const std::int64_t row = my_team<threads>();
  if (row >= call.rows) {
    return;
  }
  using Row = std::conditional_t<(vectors > 0), PackedRow<T, threads, vectors>,
                                 RowValues<T, threads, vectors>>;
  const Row x(call.x + row * call.columns, call.columns);
  const auto statistics = [&]() -> float2 {
    float mean = 0;
    if (call.mean != nullptr) {
      each_column([&](std::int64_t, float value) { mean += value; }, x);
      mean = Group::sum_in_turn(0, mean) * call.over_columns;
    }
    float squares = 0;
    each_column(
        [&](std::int64_t, float value) { squares = fmaf(value - mean, value - mean, squares); }, x);
    const float rstd =
        __frsqrt_rn(fmaf(Group::sum_in_turn(1, squares), call.over_columns, call.eps));
    if (Group::rank() == 0) {
      if (call.mean != nullptr) {
        call.mean[row] = mean;
      }
      call.rstd[row] = rstd;
    }
    return {mean, rstd};
  };
  const auto finish = [&](float2 found, const Row& weight, const Row& bias) {
    store_row(
        call.y + row * call.columns,
        [&](std::int64_t, float value, float w, float b) {
          return fmaf((value - found.x) * found.y, w, b);
        },
        x, weight, bias);
  };
  if constexpr (has_tail<Tail>) {
    const auto [mean, rstd] = statistics();
    store_through_tail<T, threads, vectors, Tail>(call, row, mean, rstd);
  } else if constexpr (sizeof(T) == 2 && vectors * width<T> <= 16) {
    // Asked for while the row is on its way: there are registers for them.
    const Row weight(call.weight, call.columns, 1), bias(call.bias, call.columns);
    finish(statistics(), weight, bias);
  } else {
    const float2 found = statistics();
    finish(found, Row(call.weight, call.columns, 1), Row(call.bias, call.columns));
  }
}

template <class Tail, class T>
void run_forward(int device, const NormForward<T>& call, bool on_vectors, const Tail& tail) {
  with_row_values<T>(call.columns, on_vectors, [&]<int threads, int vectors>() {
    if constexpr (vectors > 0 || !has_tail<Tail>) {
      norm_kernel<T, threads, vectors, Tail>
          <<<blocks_of_teams<threads>(call.rows), row_block<threads>, 0, use(device)>>>(
              {call, tail});
      check(cudaGetLastError(), "norm_kernel");
    }
  });
}

}  // namespace

template <class T>
void norm_forward(int device, const NormForward<T>& call, const ops::ActivationArgs& tail) {
  if (call.rows == 0 || call.columns == 0) {
    return;
  }
  const std::int64_t n = call.rows * call.columns;
  const bool on_vectors =
      rows_on_vectors_of<T>(call.columns, call.x, call.y, call.weight, call.bias);
  const bool is_one_pass = (is_identity(tail) || (on_vectors && fits_team<T>(call.columns))) &&
                           with_norm_tail(tail, n, call.columns, [&](const auto& behind) {
                             run_forward(device, call, on_vectors, behind);
                           });
  if (!is_one_pass) {
    run_forward(device, call, on_vectors, Bare{});
    activation_forward(device, tail, call.y, call.y, n);
  }
}

template void norm_forward(int, const NormForward<SINTER_STORAGE>&, const ops::ActivationArgs&);

}  // namespace sinter::cuda
