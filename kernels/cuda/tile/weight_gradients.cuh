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
  int across;           // tiles side by side
  unsigned per_across;  // 2^31 / across, rounded up
};

struct GradientTask {
  Layer layer[most_layers];
  int layers;
  Updates updates;
  const std::int64_t* fault;  // of the updates
};

/// The constants of the update in shared memory, where they are brought before they are needed: a
/// graph's live ones are final when it begins.
struct alignas(16) Constants {
  math::SgdConstants<float> sgd;
  math::AdamConstants<float> adam;

  /// By all threads, of which there are at least 128; a barrier has to follow.
  __device__ __forceinline__ void bring(const Updates& updates) {
    bring(sgd, updates.sgd, 0);
    bring(adam, updates.adam, 64);
  }

 private:
  // A word by each thread from `first` on.
  template <class One>
  static __device__ __forceinline__ void bring(One& to, const Update<One>& update, int first) {
    constexpr int words = sizeof(One) / 4;
    static_assert(sizeof(One) % 4 == 0 && words <= 64);
    const One& from = update.live == nullptr ? update.constants : *update.live;
    const int word = static_cast<int>(threadIdx.x) - first;
    if (word >= 0 && word < words) {
      reinterpret_cast<std::uint32_t*>(&to)[word] =
          reinterpret_cast<const std::uint32_t*>(&from)[word];
    }
  }
};

/// Where bad input is noted, which ends all updates; null where nobody would look.
inline const std::int64_t* fault_of(const Updates& updates) {
  return updates.sgd.fault != nullptr ? updates.sgd.fault : updates.adam.fault;
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
__device__ __forceinline__ void apply(const Constants& constants, Rule rule, const Quad& gradient,
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
      return each(
          [&](float g, float& p, float&, float&) { update_parameter(constants.sgd, g, p); });
    case Rule::momentum:
      return each(
          [&](float g, float& p, float& v, float&) { update_parameter(constants.sgd, g, p, v); });
    case Rule::adam:
      return each([&](float g, float& p, float& m, float& s) {
        update_parameter(constants.adam, g, p, m, s);
      });
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
