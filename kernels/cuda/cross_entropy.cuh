// What the kernels of softmax cross entropy share.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/integers.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/rows.cuh>
#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {

/// The rows of a call, as far as their labels and class weights go.
template <class T>
struct LabelledRows {
  CrossEntropy<T> call;
  IntegerValues labels;
  float smooth;  ///< of each class: label_smoothing / classes
  float sharp;   ///< of the label: 1 - label_smoothing

  __device__ bool is_bad(std::int64_t label) const {
    return (label < 0 || label >= call.classes) && label != call.ignore_index;
  }
  __device__ float weight(std::int64_t of_class) const {
    if (call.class_weights == nullptr) {
      return 1.0f;
    }
    // Past the first-level cache, for a kernel that may have started before this was written.
    if constexpr (sizeof(T) == 4) {
      return __ldcg(call.class_weights + of_class);
    } else {
      return to_float(call.class_weights[of_class]);
    }
  }
  /// Of a row in the mean.
  __device__ double weight_of_row(std::int64_t row) const { return weight_in_mean(labels[row]); }
  /// Whether rows with this label have a loss.
  __device__ bool counts(std::int64_t label) const {
    return label != call.ignore_index && !is_bad(label);
  }
  /// Of any row with this label.
  __device__ double weight_in_mean(std::int64_t label) const {
    return counts(label) ? static_cast<double>(weight(label)) : 0.0;
  }
};

/// The terms of the mean's weight, and where it goes: see run_sum().
template <class T>
struct WeightOfRow {
  LabelledRows<T> rows;
  __device__ double operator()(std::int64_t row) const { return rows.weight_of_row(row); }
};
struct Keep {
  double* to;
  __device__ void operator()(double value) const { *to = value; }
};

/// The sum of e^(x - most) over a row but for one of those that are `most`: that adds 1, which is
/// left to log1p, for in a sum it would swallow the others, and the loss of a network sure of its
/// answer would lose its digits. `below`: the sum over those that are less, `largest`: the number
/// of the others. NaN where the largest is infinite.
__device__ inline float rest_of(float most, float below, float largest) {
  return below + (largest - 1) + (most - most);
}

/// The sum without the label's own instead, whose logit is given.
__device__ inline float others_of(float most, float rest, float of_label) {
  return of_label == most ? rest : rest - exp_below<float>(of_label, most) + 1;
}

/// The gradient of one row's logits. `rest`: the sum of e^(x - largest) without the largest's own,
/// `others`: without the label's; `weights`: the sum of class weights, where there is smoothing;
/// `sharp`: the label's weight times 1 - label_smoothing.
class RowSlope {
 public:
  __device__ RowSlope(float rest, float others, float weights, float sharp, float smooth,
                      float scale)
      : inverse_sum_(1 / (1 + rest)),
        per_exponential_((sharp + smooth * weights) * inverse_sum_ * scale),
        per_weight_(smooth * scale),
        others_(others),
        weights_(weights),
        sharp_(sharp),
        smooth_(smooth),
        scale_(scale) {}

  /// `e`: e^(x - largest); `weight`: the class's, 0 without smoothing.
  __device__ float beside(float e, float weight) const {
    return e * per_exponential_ - per_weight_ * weight;
  }
  // Of the sum of the others, not p - 1, which would cancel in a network sure of its answer.
  __device__ float at_label(float e, float weight) const {
    return (smooth_ * (e * inverse_sum_ * weights_ - weight) - sharp_ * (others_ * inverse_sum_)) *
           scale_;
  }

 private:
  float inverse_sum_, per_exponential_, per_weight_, others_, weights_, sharp_, smooth_, scale_;
};

}  // namespace sinter::cuda
