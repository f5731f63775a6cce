// Layer and RMS normalisation of rows, and what stands behind them. A row stays in the registers of
// its team between the statistics and what is made of them.
#include <sinter/kernels/cuda/norm.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

template <class T, int threads, int vectors, bool has_tail>
__global__ void __launch_bounds__(row_block<threads>)
    norm_kernel(const NormTask<NormForward<T>, has_tail> call) {
  using Group = Team<threads>;
  using Values = RowValues<T, threads, vectors>;
  const std::int64_t row = my_team<threads>();
  if (row >= call.rows) {
    return;
  }
  const float count = static_cast<float>(call.columns);
  const Values x(call.x + row * call.columns, call.columns);
  float mean = 0;
  if (call.mean != nullptr) {
    each_column([&](std::int64_t, float value) { mean += value; }, x);
    mean = Group::sum(mean) / count;
  }
  float squares = 0;
  each_column([&](std::int64_t, float value) { squares += (value - mean) * (value - mean); }, x);
  const float rstd = 1 / sqrtf(Group::sum(squares) / count + call.eps);
  if (Group::rank() == 0) {
    if (call.mean != nullptr) {
      call.mean[row] = mean;
    }
    call.rstd[row] = rstd;
  }
  if constexpr (has_tail) {
#pragma unroll 1
    for (int v = 0; v < vectors && Values::place(v) < call.columns; ++v) {
      const std::int64_t column = Values::place(v), at = row * call.columns + column;
      Vector<T> y = z_of(call, column, load(call.x + at), mean, rstd);
      go_through<T>(call.tail, at, y.value);
      store(call.y + at, y);
    }
  } else {
    const Values weight(call.weight, call.columns, 1), bias(call.bias, call.columns);
    store_row(
        call.y + row * call.columns,
        [&](std::int64_t, float value, float w, float b) {
          return fmaf((value - mean) * rstd, w, b);
        },
        x, weight, bias);
  }
}

template <bool has_tail, class T>
void run_forward(int device, const NormForward<T>& call, bool on_vectors,
                 const ops::ActivationArgs& tail) {
  with_row_values<T>(call.columns, on_vectors, [&]<int threads, int vectors>() {
    if constexpr (vectors > 0 || !has_tail) {
      norm_kernel<T, threads, vectors, has_tail>
          <<<blocks_of_teams<threads>(call.rows), row_block<threads>, 0, use(device)>>>(
              norm_task<has_tail>(call, tail));
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
  const bool on_vectors =
      rows_on_vectors_of<T>(call.columns, call.x, call.y, call.weight, call.bias);
  if (is_identity(tail)) {
    run_forward<false>(device, call, on_vectors, tail);
  } else if (on_vectors && fits_team<T>(call.columns)) {
    run_forward<true>(device, call, on_vectors, tail);
  } else {
    run_forward<false>(device, call, on_vectors, tail);
    activation_forward(device, tail, call.y, call.y, call.rows * call.columns);
  }
}

template void norm_forward(int, const NormForward<SINTER_STORAGE>&, const ops::ActivationArgs&);

}  // namespace sinter::cuda
