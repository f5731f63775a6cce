// The rows' part of the last Linear's kernel: from logits to losses and slopes, four lanes a row.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/cross_entropy.cuh>
#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/rows.cuh>

namespace sinter::cuda::tile {

/// What the rows are told. `call` has no logits: they are never stored.
using HeadRows = LabelledRows<float>;

template <class Combine>
__device__ __forceinline__ auto of_four_lanes(auto value, Combine combine) {
  value = combine(value, from_lane_xor(value, 1));
  return combine(value, from_lane_xor(value, 2));
}
__device__ __forceinline__ float sum_of_four_lanes(float value) {
  return of_four_lanes(value, [](float a, float b) { return a + b; });
}

/// `x`: the logits of columns `column` on, those past the classes anything, which become the
/// slopes: 0 there. Before, `tell` is called with the row's loss, known to its four lanes.
template <int count, class Tell>
__device__ __forceinline__ void finish_row(const HeadRows& rows, std::int64_t label, int column,
                                           float scale, float (&x)[count], Tell tell) {
  const int classes = static_cast<int>(rows.call.classes);
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    most = column + i < classes ? fmaxf(most, x[i]) : most;
  }
  most = of_four_lanes(most, [](float a, float b) { return fmaxf(a, b); });
  // Rows without a loss go along, for the sake of the lanes beside theirs.
  const bool counts = rows.counts(label);
  const int place = counts ? static_cast<int>(label) - column : -column;  // of the label, from x[0]
  float e[count], weight[count];
  float below = 0, largest = 0, weights = 0, all = 0, of_label = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const bool exists = column + i < classes;
    e[i] = exists ? exp_below<float>(x[i], most) : 0.0f;
    below += exists && x[i] == most ? 0.0f : e[i];
    largest += exists && x[i] == most ? 1.0f : 0.0f;
    weight[i] = exists && rows.smooth != 0 ? rows.weight(column + i) : 0.0f;
    weights += weight[i];
    of_label += i == place ? x[i] : 0.0f;
  }
  below = sum_of_four_lanes(below);
  largest = sum_of_four_lanes(largest);
  of_label = sum_of_four_lanes(of_label);
  const float rest = rest_of(most, below, largest);
  const float others = others_of(most, rest, of_label);
  const float log_sum = log1pf(rest);
  const float sharp = rows.sharp * rows.weight(counts ? label : 0);
  float loss = sharp * (log_sum - (of_label - most));
  if (rows.smooth != 0) {
    weights = sum_of_four_lanes(weights);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      all += column + i < classes ? weight[i] * (log_sum - (x[i] - most)) : 0.0f;
    }
    loss += rows.smooth * sum_of_four_lanes(all);
  }
  tell(counts ? loss : 0.0f);
  const RowSlope slope(rest, others, weights, sharp, rows.smooth, scale);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float value =
        i == place ? slope.at_label(e[i], weight[i]) : slope.beside(e[i], weight[i]);
    x[i] = counts && column + i < classes ? value : 0.0f;
  }
}

}  // namespace sinter::cuda::tile
