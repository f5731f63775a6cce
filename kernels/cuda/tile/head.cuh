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
/// slopes: 0 there. Gives the row's loss, known to its four lanes.
template <int count>
__device__ __forceinline__ float loss_of_four_lanes(const HeadRows& rows, std::int64_t label,
                                                    int column, float scale, float (&x)[count]) {
  const int classes = static_cast<int>(rows.call.classes);
  Ranked top{-INFINITY, classes};
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (column + i < classes && x[i] > top.value) {
      top = {x[i], column + i};
    }
  }
  top = of_four_lanes(top, [](const Ranked& a, const Ranked& b) {
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
  });
  // Rows without a loss go along, for the sake of the lanes beside theirs.
  const bool counts = label != rows.call.ignore_index && !rows.is_bad(label);
  label = counts ? label : 0;
  // The largest is left to log1p: see typed/cross_entropy.cu.
  float e[count], weight[count];
  float rest = 0, others = 0, weights = 0, all = 0, of_label = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const bool exists = column + i < classes;
    e[i] = exists ? exp_below<float>(x[i], top.value) : 0.0f;
    rest += column + i == top.place ? 0.0f : e[i];
    others += column + i == label ? 0.0f : e[i];
    weight[i] = exists && rows.smooth != 0 ? rows.weight(column + i) : 0.0f;
    weights += weight[i];
    of_label += column + i == label ? x[i] : 0.0f;
  }
  rest = sum_of_four_lanes(rest);
  others = sum_of_four_lanes(others);
  of_label = sum_of_four_lanes(of_label);
  const float log_sum = log1pf(rest);
  const float sharp = rows.sharp * rows.weight(label);
  float loss = sharp * (log_sum - (of_label - top.value));
  if (rows.smooth != 0) {
    weights = sum_of_four_lanes(weights);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      all += column + i < classes ? weight[i] * (log_sum - (x[i] - top.value)) : 0.0f;
    }
    loss += rows.smooth * sum_of_four_lanes(all);
  }
  const RowSlope slope(rest, others, weights, sharp, rows.smooth, scale);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float value =
        column + i == label ? slope.at_label(e[i], weight[i]) : slope.beside(e[i], weight[i]);
    x[i] = counts && column + i < classes ? value : 0.0f;
  }
  return counts ? loss : 0.0f;
}

}  // namespace sinter::cuda::tile
