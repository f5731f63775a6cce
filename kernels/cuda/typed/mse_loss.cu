// Squared differences with their gradient, one pass.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/loss_place.cuh>
#include <sinter/kernels/cuda/sums.cuh>

namespace sinter::cuda {
namespace {

template <class T>
struct SquaredDifference {
  const T* x;
  const T* target;
  T* grad;
  double slope;
  LossPlace<T> each;

  // In float64, whose squares do not overflow; memory takes longer.
  __device__ double operator()(std::int64_t i) const {
    const double d = static_cast<double>(to_float(x[i])) - static_cast<double>(to_float(target[i]));
    if (grad != nullptr) {
      grad[i] = from_float<T>(static_cast<float>(slope * d));
    }
    if (each.stored != nullptr || each.wide != nullptr) {
      store_loss(each, i, static_cast<float>(d * d));
    }
    return d * d;
  }
};

template <class T>
struct StoreScaled {
  LossPlace<T> loss;
  double scale;
  __device__ void operator()(double sum) const {
    if (loss.stored != nullptr || loss.wide != nullptr) {
      store_loss(loss, 0, static_cast<float>(sum * scale));
    }
  }
};

}  // namespace

template <class T>
void mse_loss(int device, const T* x, const T* target, std::int64_t n, LossPlace<T> loss, T* grad,
              ops::Reduction reduction) {
  const double scale =
      reduction == ops::Reduction::mean && n > 0 ? 1.0 / static_cast<double>(n) : 1.0;
  constexpr LossPlace<T> nowhere{nullptr, nullptr};
  const bool each = reduction == ops::Reduction::none;
  run_sum(device, n, SquaredDifference<T>{x, target, grad, 2 * scale, each ? loss : nowhere},
          StoreScaled<T>{each ? nowhere : loss, scale});
}

template void mse_loss(int, const SINTER_STORAGE*, const SINTER_STORAGE*, std::int64_t,
                       LossPlace<SINTER_STORAGE>, SINTER_STORAGE*, ops::Reduction);

}  // namespace sinter::cuda
