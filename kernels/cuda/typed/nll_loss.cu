// The negative log-probability of labels, with its gradient.
#include <cmath>

#include <sinter/kernels/cuda/cross_entropy.cuh>
#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/loss_place.cuh>
#include <sinter/kernels/cuda/sums.cuh>

namespace sinter::cuda {
namespace {

// The gradient is zeros but for what these write.
template <class T>
struct LossOfRow {
  LabelledRows<T> rows;
  const double* total_weight;  // or null

  // With nothing to average over, loss and gradient are 0.
  __device__ double scale() const {
    return total_weight == nullptr ? 1.0 : *total_weight == 0 ? 0.0 : 1 / *total_weight;
  }
  __device__ double operator()(std::int64_t row) const {
    const CrossEntropy<T>& call = rows.call;
    const std::int64_t label = rows.labels[row];
    float loss = 0;
    if (rows.is_bad(label)) {
      see_bad(row);
      loss = NAN;  // for whoever reads it before the note
    } else if (rows.counts(label)) {
      const std::int64_t at = row * call.classes + label;
      loss = -rows.weight(label) * to_float(call.logits[at]);
      if (call.grad != nullptr) {
        call.grad[at] =
            from_float<T>(static_cast<float>(-static_cast<double>(rows.weight(label)) * scale()));
      }
    }
    if (call.reduction == ops::Reduction::none) {
      store_loss(call.loss, row, loss);
    }
    return loss;
  }
};

template <class T>
struct StoreLoss {
  LossOfRow<T> of_row;

  __device__ void operator()(double sum) const {
    const CrossEntropy<T>& call = of_row.rows.call;
    note_bad(call.fault, of_row.rows.labels, call.classes);
    if (call.reduction != ops::Reduction::none) {
      store_loss(call.loss, 0, static_cast<float>(sum * of_row.scale()));
    }
  }
};

}  // namespace

template <class T>
void nll_loss(int device, const CrossEntropy<T>& call) {
  LossOfRow<T> of_row{{call, {call.labels}, 0, 1}, nullptr};
  Tensor total;
  if (call.reduction == ops::Reduction::mean) {
    total = Tensor::empty({1}, DType::float64, Device::cuda(device));
    run_sum(device, call.labels.count, WeightOfRow<T>{of_row.rows}, Keep{total.raw<double>()});
    of_row.total_weight = total.raw<double>();
  }
  if (call.grad != nullptr) {
    const std::int64_t bytes =
        call.labels.count * call.classes * static_cast<std::int64_t>(sizeof(T));
    check(cudaMemsetAsync(call.grad, 0, static_cast<std::size_t>(bytes), use(device)),
          "cudaMemsetAsync");
  }
  run_sum(device, call.labels.count, of_row, StoreLoss<T>{of_row});
}

template void nll_loss(int, const CrossEntropy<SINTER_STORAGE>&);

}  // namespace sinter::cuda
