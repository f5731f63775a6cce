// One kernel over the tiles of all layers of a list.
#include <sinter/kernels/cuda/tile/gradients.h>
#include <sinter/kernels/cuda/tile/launch.cuh>
#include <sinter/kernels/cuda/tile/weight_gradients.cuh>

namespace sinter::cuda::tile {
namespace {

template <class S>
constexpr int shared_floats = S::partial_floats + S::warps_k* S::m;

// Whether this thread finishes the bias of a line, which it is.
template <class S>
__device__ __forceinline__ bool has_bias(const Layer& layer, int tile_m, int tile_n) {
  const int line = static_cast<int>(threadIdx.x);
  return tile_n == 0 && layer.bias.data != nullptr && line < S::m &&
         tile_m * S::m + line < layer.dy.lines;
}

template <class S, bool vectors_dy, bool vectors_x>
__device__ __forceinline__ void multiply_layer(const Layer& layer, const std::int64_t* noted,
                                               int tile_m, int tile_n, float* room,
                                               std::int64_t& fault, Held& bias,
                                               Held (&held)[S::quads_to_finish]) {
  const Place<S> at(tile_m, tile_n);
  LineSums<S> sums;
  const bool has_weight = layer.weight.data != nullptr;
  multiply<S, Major::line, vectors_dy, Major::line, vectors_x>(
      at, layer.dy, layer.x, layer.settled, sums, room, [&](Stage stage) {
        if (stage == Stage::after_wait && noted != nullptr) {
          fault = __ldcg(noted);
        }
        if (stage != loads_at<S>) {
          return;
        }
        if (has_bias<S>(layer, tile_m, tile_n)) {
          fetch(bias, layer.bias, layer.bias_rule, tile_m * S::m + static_cast<int>(threadIdx.x), 1,
                false);
        }
        if (!has_weight) {
          return;
        }
#pragma unroll
        for (int i = 0; i < S::quads_to_finish; ++i) {
          const int row = at.row(i), column = at.column(i);
          const int count = at.has(i) ? valid(row, column, layer.dy.lines, layer.x.lines) : 0;
          fetch(held[i], layer.weight, layer.weight_rule, row * layer.x.lines + column, count,
                layer.vectors_weight);
        }
      });
  if (tile_n == 0 && at.warp_n == 0) {
    sums.put(at, room + S::partial_floats);
  }
}

template <class S>
__global__ void __launch_bounds__(S::bounded_threads, 1)
    gradient_kernel(const __grid_constant__ GradientTask task) {
  extern __shared__ __align__(16) float room[];
  __shared__ Constants constants;
  if constexpr (!has_tf32) {
    return;
  }
  int l = 0;
  while (l + 1 < task.layers && static_cast<int>(blockIdx.x) >= task.layer[l + 1].first_tile) {
    ++l;
  }
  const Layer& layer = task.layer[l];
  const int tile = static_cast<int>(blockIdx.x) - layer.first_tile;
  // tile / across: exact, for the sides are too short for anything else.
  const int tile_m = static_cast<int>(std::uint64_t(tile) * layer.per_across >> 31);
  const int tile_n = tile - tile_m * layer.across;
  constants.bring(task.updates);
  std::int64_t fault = no_position;
  Held bias;
  Held held[S::quads_to_finish];
  if (layer.vectors_x) {
    if (layer.vectors_dy) {
      multiply_layer<S, true, true>(layer, task.fault, tile_m, tile_n, room, fault, bias, held);
    } else {
      multiply_layer<S, false, true>(layer, task.fault, tile_m, tile_n, room, fault, bias, held);
    }
  } else if (layer.vectors_dy) {
    multiply_layer<S, true, false>(layer, task.fault, tile_m, tile_n, room, fault, bias, held);
  } else {
    multiply_layer<S, false, false>(layer, task.fault, tile_m, tile_n, room, fault, bias, held);
  }
  __syncthreads();
  if (fault != no_position) {
    return;
  }
  const Place<S> at(tile_m, tile_n);
  if (layer.weight.data != nullptr) {
#pragma unroll
    for (int i = 0; i < S::quads_to_finish; ++i) {
      const int row = at.row(i), column = at.column(i);
      const int count = at.has(i) ? valid(row, column, layer.dy.lines, layer.x.lines) : 0;
      if (count != 0) {
        const float4 sum = total(at, room, at.quad(i));
        apply(constants, layer.weight_rule, {sum.x, sum.y, sum.z, sum.w}, held[i]);
        put_back(held[i], layer.weight, layer.weight_rule, row * layer.x.lines + column, count,
                 layer.vectors_weight);
      }
    }
  }
  if (has_bias<S>(layer, tile_m, tile_n)) {
    const int line = static_cast<int>(threadIdx.x);
    const float sum = LineSums<S>::total(room + S::partial_floats, line);
    apply(constants, layer.bias_rule, {sum, 0, 0, 0}, bias);
    put_back(bias, layer.bias, layer.bias_rule, tile_m * S::m + line, 1, false);
  }
}

template <class S>
void launch_shape(Launch& launch, GradientTask& task) {
  int tiles = 0;
  for (int l = 0; l < task.layers; ++l) {
    Layer& layer = task.layer[l];
    layer.first_tile = tiles;
    layer.across = layer.weight.data == nullptr ? 1 : divided_up(layer.x.lines, S::n);
    layer.per_across = (1u << 31) / static_cast<unsigned>(layer.across) + 1;
    tiles += divided_up(layer.dy.lines, S::m) * layer.across;
  }
  run(launch, gradient_kernel<S>, dim3(static_cast<unsigned>(tiles)), S::threads,
      shared_floats<S> * sizeof(float), task);
}

template <class S>
std::int64_t tiles_of(const Layer& layer) {
  return std::int64_t{divided_up(layer.dy.lines, S::m)} * divided_up(layer.x.lines, S::n);
}

Target target_of(const GradientTensors& tensors, const Launch& launch, bool& settled) {
  Target target{};
  Tensor data = tensors.data;
  target.data = data_or_null(data);
  settled = settled && launch.settled(data);
  for (int i = 0; i < 2; ++i) {
    Tensor state = tensors.state[i];
    target.state[i] = data_or_null(state);
    settled = settled && launch.settled(state);
  }
  return target;
}

bool on_vectors(const Target& target, int columns) {
  return rows_on_vectors(target.data, columns) && tile::on_vectors(target.state[0]) &&
         tile::on_vectors(target.state[1]);
}

void note_writes(Launch& launch, const GradientTensors& tensors) {
  launch.writes(tensors.data);
  launch.writes(tensors.state[0]);
  launch.writes(tensors.state[1]);
}

Layer layer_of(const GradientLayer& from, const Launch& launch) {
  Layer layer{};
  // Without weights there is no second operand to speak of.
  const Tensor& x = from.weight.data.defined() ? from.x : from.dy;
  layer.dy = operand(from.dy, Major::line);
  layer.x = operand(x, Major::line);
  layer.vectors_dy = rows_on_vectors(layer.dy.data, layer.dy.stride);
  layer.vectors_x = rows_on_vectors(layer.x.data, layer.x.stride);
  layer.settled = {launch.settled(from.dy), launch.settled(x), true};
  layer.weight = target_of(from.weight, launch, layer.settled.rest);
  layer.bias = target_of(from.bias, launch, layer.settled.rest);
  layer.weight_rule = from.weight.rule;
  layer.bias_rule = from.bias.rule;
  layer.vectors_weight = on_vectors(layer.weight, layer.x.lines);
  return layer;
}

}  // namespace

void launch_gradients(int device, std::span<const GradientLayer> layers, const Updates& updates) {
  GradientTask task{};
  task.updates = updates;
  task.fault = fault_of(updates);
  task.layers = static_cast<int>(layers.size());
  Launch launch_here(device);
  std::int64_t square = 0;
  for (int l = 0; l < task.layers; ++l) {
    const GradientLayer& from = layers[static_cast<std::size_t>(l)];
    task.layer[l] = layer_of(from, launch_here);
    note_writes(launch_here, from.weight);
    note_writes(launch_here, from.bias);
    square += tiles_of<LargeTile>(task.layer[l]);
  }
  if (prefers_square_tiles(square, launch_here.multiprocessors())) {
    launch_shape<LargeTile>(launch_here, task);
  } else {
    launch_shape<WideTile>(launch_here, task);
  }
}

}  // namespace sinter::cuda::tile
