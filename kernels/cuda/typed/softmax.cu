// Softmax of rows, its logarithm, and their gradients.
#include <sinter/kernels/cuda/cross_entropy.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// Of sign * x.
template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>)
    softmax_kernel(const T* x, std::int64_t rows, std::int64_t columns, T* y, float sign) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  RowValues<T, threads, vectors> values(x + row * columns, columns);
  const float most = largest(values, sign);
  float sum = 0;
  if constexpr (vectors > 0) {  // each exponential once
    for (auto& vector : values.vector) {
      for (float& value : vector.value) {
        value = exp_below<T>(sign * value, most);
      }
    }
    each_column([&](std::int64_t, float e) { sum += e; }, values);
    const float inverse = 1 / Team<threads>::sum(sum);
    store_row(
        y + row * columns, [&](std::int64_t, float e) { return e * inverse; }, values);
  } else {
    each_column([&](std::int64_t, float value) { sum += exp_below<T>(sign * value, most); },
                values);
    const float inverse = 1 / Team<threads>::sum(sum);
    store_row(
        y + row * columns,
        [&](std::int64_t, float value) { return exp_below<T>(sign * value, most) * inverse; },
        values);
  }
}

template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>)
    log_softmax_kernel(const T* x, std::int64_t rows, std::int64_t columns, T* y, float sign) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  const RowValues<T, threads, vectors> values(x + row * columns, columns);
  const float most = largest(values, sign);
  float below = 0, of_largest = 0;
  each_column(
      [&](std::int64_t, float value) {
        value *= sign;
        below += value == most ? 0.0f : exp_below<T>(value, most);
        of_largest += value == most ? 1.0f : 0.0f;
      },
      values);
  const float rest = rest_of(most, Team<threads>::sum(below), Team<threads>::sum(of_largest));
  const float log_sum = log1pf(rest);
  store_row(
      y + row * columns, [&](std::int64_t, float value) { return (sign * value - most) - log_sum; },
      values);
}

template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>)
    softmax_backward_kernel(const T* y, const T* dy, std::int64_t rows, std::int64_t columns, T* dx,
                            bool log, float sign) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  const RowValues<T, threads, vectors> values(y + row * columns, columns);
  const RowValues<T, threads, vectors> grads(dy + row * columns, columns);
  float sum = 0;
  each_column([&](std::int64_t, float value, float grad) { sum += log ? grad : grad * value; },
              values, grads);
  sum = Team<threads>::sum(sum);
  store_row(
      dx + row * columns,
      [&](std::int64_t, float value, float grad) {
        return sign * (log ? grad - expf(value) * sum : value * (grad - sum));
      },
      values, grads);
}

}  // namespace

template <class T>
void softmax(int device, const T* x, std::int64_t rows, std::int64_t columns, T* y,
             const ops::SoftmaxArgs& args) {
  if (rows == 0 || columns == 0) {
    return;
  }
  with_row_values<T>(
      columns, rows_on_vectors_of<T>(columns, x, y), [&]<int threads, int vectors>() {
        const auto kernel = args.log ? log_softmax_kernel<T, threads, vectors>
                                     : softmax_kernel<T, threads, vectors>;
        kernel<<<blocks_of_teams<threads>(rows), row_block<threads>, 0, use(device)>>>(
            x, rows, columns, y, args.negated ? -1.0f : 1.0f);
        check(cudaGetLastError(), "softmax_kernel");
      });
}

template <class T>
void softmax_backward(int device, const T* y, const T* dy, std::int64_t rows, std::int64_t columns,
                      T* dx, const ops::SoftmaxArgs& args) {
  if (rows == 0 || columns == 0) {
    return;
  }
  with_row_values<T>(columns, rows_on_vectors_of<T>(columns, y, dy, dx),
                     [&]<int threads, int vectors>() {
                       softmax_backward_kernel<T, threads, vectors>
                           <<<blocks_of_teams<threads>(rows), row_block<threads>, 0, use(device)>>>(
                               y, dy, rows, columns, dx, args.log, args.negated ? -1.0f : 1.0f);
                       check(cudaGetLastError(), "softmax_backward_kernel");
                     });
}

template void softmax(int, const SINTER_STORAGE*, std::int64_t, std::int64_t, SINTER_STORAGE*,
                      const ops::SoftmaxArgs&);
template void softmax_backward(int, const SINTER_STORAGE*, const SINTER_STORAGE*, std::int64_t,
                               std::int64_t, SINTER_STORAGE*, const ops::SoftmaxArgs&);

}  // namespace sinter::cuda
