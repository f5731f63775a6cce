// The gradients of the parameters of several Linears, in one kernel over the tiles of all of them.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/tile/gradients.h>
#include <sinter/kernels/cuda/tile/problem.cuh>
#include <sinter/kernels/cuda/tile/quads.cuh>
#include <sinter/kernels/cuda/tile/shapes.cuh>
#include <sinter/kernels/cuda/update.cuh>

namespace sinter::cuda::tile {

/// A parameter, or its gradient, and what else an update keeps for it.
struct Target {
  float* data;      // or null: not wanted
  float* state[2];  // velocity, or mean and square
};

struct Layer {
  Matrix dy;  // lines: out
  Matrix x;   // lines: in
  Target weight;
  Target bias;
  Rule weight_rule;
  Rule bias_rule;
  Settled settled;
  bool vectors_dy;
  bool vectors_x;
  bool vectors_weight;
  int first_tile;
  int across;  // tiles side by side
};

struct GradientTask {
  Layer layer[most_layers];
  int layers;
  Updates updates;
};

template <class Constants>
__device__ __forceinline__ Constants constants_of(const Update<Constants>& update) {
  return update.live == nullptr ? update.constants : *update.live;
}

template <class Constants>
__device__ __forceinline__ bool is_idle(const Update<Constants>& update) {
  return update.fault != nullptr && __ldcg(update.fault) != no_position;
}

/// Tensors that a rule reads of a Target.
__device__ __forceinline__ int tensors_read(Rule rule) {
  return rule == Rule::write ? 0 : rule == Rule::momentum ? 2 : rule == Rule::adam ? 3 : 1;
}

/// A quad of each of them.
struct Held {
  Quad value[3];
};

__device__ __forceinline__ void fetch(Held& held, const Target& target, Rule rule, int offset,
                                      int count, bool vectors) {
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (i < tensors_read(rule)) {
      load_quad(held.value[i], (i == 0 ? target.data : target.state[i == 2 ? 1 : 0]) + offset,
                count, vectors);
    }
  }
}

/// Changes `held`, of which what follows is stored.
__device__ __forceinline__ void apply(const GradientTask& task, Rule rule, const Quad& gradient,
                                      Held& held) {
  const auto each = [&](auto change) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      change(gradient[i], held.value[0][i], held.value[1][i], held.value[2][i]);
    }
  };
  switch (rule) {
    case Rule::write:
      return each([](float g, float& p, float&, float&) { p = g; });
    case Rule::accumulate:
      return each([](float g, float& p, float&, float&) { p += g; });
    case Rule::sgd:
    case Rule::momentum: {
      const auto constants = constants_of(task.updates.sgd);
      if (rule == Rule::sgd) {
        return each([&](float g, float& p, float&, float&) { update_parameter(constants, g, p); });
      }
      return each(
          [&](float g, float& p, float& v, float&) { update_parameter(constants, g, p, v); });
    }
    case Rule::adam: {
      const auto constants = constants_of(task.updates.adam);
      return each(
          [&](float g, float& p, float& m, float& s) { update_parameter(constants, g, p, m, s); });
    }
  }
}

__device__ __forceinline__ void put_back(const Held& held, const Target& target, Rule rule,
                                         int offset, int count, bool vectors) {
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (i == 0 || i < tensors_read(rule)) {
      store_quad((i == 0 ? target.data : target.state[i == 2 ? 1 : 0]) + offset, held.value[i],
                 count, vectors);
    }
  }
}

}  // namespace sinter::cuda::tile
