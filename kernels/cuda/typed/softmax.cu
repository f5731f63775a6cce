// Softmax of rows, with dropout behind it or without, its logarithm, and their gradients.
#include <sinter/kernels/cuda/cross_entropy.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/row_mask.cuh>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// The softmax of a row of sign * x. Values that are held become their exponentials, each computed
// once.
template <class T, class Row>
class Shares {
 public:
  __device__ Shares(Row& values, float sign) : sign_(sign), most_(largest(values, sign)) {
    if constexpr (Row::vectors > 0) {
#pragma unroll
      for (auto& vector : values.vector) {
#pragma unroll
        for (float& value : vector.value) {
          value = exp_below<T>(sign * value, most_);
        }
      }
    }
    float sum = 0;
    each_column([&](std::int64_t, float value) { sum += exponential(value); }, values);
    inverse_ = 1 / Team<Row::threads>::sum(sum);
  }
  /// Of a value of the row, as it is there now.
  __device__ float operator()(float value) const { return exponential(value) * inverse_; }

 private:
  __device__ float exponential(float value) const {
    return Row::vectors > 0 ? value : exp_below<T>(sign_ * value, most_);
  }

  float sign_, most_, inverse_;
};

template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>)
    softmax_kernel(const T* x, std::int64_t rows, std::int64_t columns, T* y, float sign) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  RowValues<T, threads, vectors> values(x + row * columns, columns);
  const Shares<T, RowValues<T, threads, vectors>> share(values, sign);
  store_row(
      y + row * columns, [&](std::int64_t, float value) { return share(value); }, values);
}

template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>)
    softmax_dropout_kernel(const T* x, std::int64_t rows, std::int64_t columns, T* y, float sign,
                           const __grid_constant__ tile::Mask mask) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  using Row = RowValues<T, threads, vectors>;
  RowMask<Row> kept(mask, row * columns, columns);
  Row values(x + row * columns, columns);
  kept.draw(columns);
  const Shares<T, Row> share(values, sign);
  kept.drop(values, share);
  store_row(
      y + row * columns,
      [&](std::int64_t column, float value) { return kept.dropped(column, value, share); }, values);
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

template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>)
    softmax_dropout_backward_kernel(const T* x, const T* dy, std::int64_t rows,
                                    std::int64_t columns, T* dx, float sign,
                                    const __grid_constant__ tile::Mask mask) {
  const std::int64_t row = my_team<threads>();
  if (row >= rows) {
    return;
  }
  using Row = RowValues<T, threads, vectors>;
  RowMask<Row> kept(mask, row * columns, columns);
  Row values(x + row * columns, columns), grads(dy + row * columns, columns);
  kept.draw(columns);
  const auto as_it_is = [](float grad) { return grad; };
  kept.drop(grads, as_it_is);
  const Shares<T, Row> share(values, sign);
  float sum = 0;
  each_column([&](std::int64_t column, float value,
                  float grad) { sum += kept.dropped(column, grad, as_it_is) * share(value); },
              values, grads);
  sum = Team<threads>::sum(sum);
  store_row(
      dx + row * columns,
      [&](std::int64_t column, float value, float grad) {
        return sign * share(value) * (kept.dropped(column, grad, as_it_is) - sum);
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
        const float sign = args.negated ? -1.0f : 1.0f;
        if (args.drops()) {
          softmax_dropout_kernel<T, threads, vectors>
              <<<blocks_of_teams<threads>(rows), row_block<threads>, 0, use(device)>>>(
                  x, rows, columns, y, sign, tile::Mask(args.dropout));
          check(cudaGetLastError(), "softmax_dropout_kernel");
          return;
        }
        const auto kernel = args.log ? log_softmax_kernel<T, threads, vectors>
                                     : softmax_kernel<T, threads, vectors>;
        kernel<<<blocks_of_teams<threads>(rows), row_block<threads>, 0, use(device)>>>(
            x, rows, columns, y, sign);
        check(cudaGetLastError(), "softmax_kernel");
      });
}

template <class T>
void softmax_backward(int device, const T* kept, const T* dy, std::int64_t rows,
                      std::int64_t columns, T* dx, const ops::SoftmaxArgs& args) {
  if (rows == 0 || columns == 0) {
    return;
  }
  with_row_values<T>(columns, rows_on_vectors_of<T>(columns, kept, dy, dx),
                     [&]<int threads, int vectors>() {
                       const float sign = args.negated ? -1.0f : 1.0f;
                       const unsigned blocks = blocks_of_teams<threads>(rows);
                       if (args.drops()) {
                         softmax_dropout_backward_kernel<T, threads, vectors>
                             <<<blocks, row_block<threads>, 0, use(device)>>>(
                                 kept, dy, rows, columns, dx, sign, tile::Mask(args.dropout));
                         check(cudaGetLastError(), "softmax_dropout_backward_kernel");
                         return;
                       }
                       softmax_backward_kernel<T, threads, vectors>
                           <<<blocks, row_block<threads>, 0, use(device)>>>(kept, dy, rows, columns,
                                                                            dx, args.log, sign);
                       check(cudaGetLastError(), "softmax_backward_kernel");
                     });
}

template void softmax(int, const SINTER_STORAGE*, std::int64_t, std::int64_t, SINTER_STORAGE*,
                      const ops::SoftmaxArgs&);
template void softmax_backward(int, const SINTER_STORAGE*, const SINTER_STORAGE*, std::int64_t,
                               std::int64_t, SINTER_STORAGE*, const ops::SoftmaxArgs&);

}  // namespace sinter::cuda
