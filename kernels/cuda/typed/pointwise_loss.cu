// Losses of one element against its target, with their gradient, in one pass.
#include <type_traits>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/loss_place.cuh>
#include <sinter/kernels/cuda/sums.cuh>
#include <sinter/kernels/cuda/unit.cuh>

namespace sinter::cuda {
namespace {

__device__ double as_double(double x) { return x; }
__device__ double as_double(Number<float> x) { return static_cast<double>(x.value); }

template <class L, class T>
struct LossOfElement {
  L loss;
  PointwiseLoss<T> call;
  double scale;
  LossPlace<T> each;

  __device__ double operator()(std::int64_t i) const {
    using V = std::conditional_t<L::wide, double, Number<float>>;
    const float weight = call.weight == nullptr ? 1.0f : to_float(call.weight[i % call.columns]);
    const auto term =
        math::loss_term(loss, V(to_float(call.x[i])), V(to_float(call.target[i])), V(weight));
    if (call.grad != nullptr) {
      call.grad[i] = from_float<T>(static_cast<float>(as_double(term.slope) * scale));
    }
    const double value = as_double(term.value);
    if (each.stored != nullptr || each.wide != nullptr) {
      store_loss(each, i, static_cast<float>(value * scale));
    }
    return value;
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
void pointwise_loss(int device, const PointwiseLoss<T>& call, const ops::PointwiseLossArgs& args) {
  constexpr LossPlace<T> nowhere{nullptr, nullptr};
  std::visit(
      [&]<class L>(const L& loss) {
        run_sum(device, call.n,
                LossOfElement<L, T>{loss, call, args.scale, args.each ? call.loss : nowhere},
                StoreScaled<T>{args.each ? nowhere : call.loss, args.scale});
      },
      args.of_element);
}

template void pointwise_loss(int, const PointwiseLoss<SINTER_STORAGE>&,
                             const ops::PointwiseLossArgs&);

}  // namespace sinter::cuda
