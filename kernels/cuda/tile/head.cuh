// The rows' part of the last Linear's kernel: from logits to losses and slopes, a lane a class.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/cross_entropy.cuh>
#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/rows.cuh>

namespace sinter::cuda::tile {

/// What the rows are told. `call` has no logits: they are never stored.
using HeadRows = LabelledRows<float>;

template <int lanes, class V, class Combine>
__device__ __forceinline__ V of_lanes(V value, Combine combine) {
#pragma unroll
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    value = combine(value, from_lane_xor(value, mask));
  }
  return value;
}
template <int lanes>
__device__ __forceinline__ float sum_of_lanes(float value) {
  return of_lanes<lanes>(value, [](float a, float b) { return a + b; });
}

/// The slope of class `column` of a row whose classes lie in `lanes` neighbouring lanes: 0 past the
/// classes. `x`: its logit, past the classes anything. Before it returns, `tell` is called with the
/// row's loss, known to all its lanes.
template <int lanes, class Tell>
__device__ __forceinline__ float finish_row(const HeadRows& rows, std::int64_t label, int column,
                                            float scale, float x, Tell tell) {
  const bool exists = column < static_cast<int>(rows.call.classes);
  const float most =
      of_lanes<lanes>(exists ? x : -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  // Rows without a loss go along, for the sake of the lanes beside theirs.
  const bool counts = rows.counts(label);
  const int place = counts ? static_cast<int>(label) : 0;
  const float of_label = __shfl_sync(0xffffffffu, x, place, lanes);
  const float e = exists ? exp_below<float>(x, most) : 0.0f;
  const bool is_most = exists && x == most;
  const float below = sum_of_lanes<lanes>(is_most ? 0.0f : e);
  const float largest = sum_of_lanes<lanes>(is_most ? 1.0f : 0.0f);
  const float rest = rest_of(most, below, largest);
  const float others = others_of(most, rest, of_label);
  const float log_sum = log1pf(rest);
  const float sharp = rows.sharp * rows.weight(counts ? label : 0);
  float loss = sharp * (log_sum - (of_label - most));
  float weight = 0, weights = 0;
  if (rows.smooth != 0) {
    weight = exists ? rows.weight(column) : 0.0f;
    weights = sum_of_lanes<lanes>(weight);
    loss += rows.smooth * sum_of_lanes<lanes>(exists ? weight * (log_sum - (x - most)) : 0.0f);
  }
  tell(counts ? loss : 0.0f);
  const RowSlope slope(rest, others, weights, sharp, rows.smooth, scale);
  const float value = column == place ? slope.at_label(e, weight) : slope.beside(e, weight);
  return counts && exists ? value : 0.0f;
}

}  // namespace sinter::cuda::tile
