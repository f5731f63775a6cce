// The list of layers that one kernel computes the parameters' gradients of, and what becomes of
// these.
#pragma once

#include <cstdint>
#include <span>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda::tile {

/// A gradient is written, or added to what is there, or never stored: the parameter is updated by
/// it on the spot.
enum class Rule : std::uint8_t { write, accumulate, sgd, momentum, adam };

struct GradientTensors {
  Rule rule = Rule::write;
  Tensor data = {};      ///< the gradient or the parameter; undefined: not wanted
  Tensor state[2] = {};  ///< velocity, or mean and square
};

struct GradientLayer {
  Tensor dy;
  Tensor x;
  GradientTensors weight = {};
  GradientTensors bias = {};
};

/// What the rules need; there is one of them in a launch that updates.
struct Updates {
  SgdUpdate sgd{};
  AdamUpdate adam{};
};

/// At most most_layers (limits.h) layers, no tensor of which is written twice.
void launch_gradients(int device, std::span<const GradientLayer> layers, const Updates& updates);

}  // namespace sinter::cuda::tile
