// What follows a product that is the gradient of a pass's output: the pass's own derivative.
#pragma once

#include <sinter/kernels/cuda/tile/activation.cuh>
#include <sinter/kernels/cuda/tile/dropout.cuh>

namespace sinter::cuda::tile {

template <int n>
struct Floats {
  float value[n];
};

/// dy * d(act)/dx from what was kept, times the scale: of all of a thread's elements in one call,
/// whose chains of instructions then run side by side.
template <int n>
static __device__ __noinline__ Floats<n> activate_backward(AnyParameters act, float scale,
                                                           float unscale, Floats<n> kept,
                                                           Floats<n> dy) {
  with_chosen(act, [&]<class A>() {
    const Backward<A, float> body{{}, Parameters<A>(act.value), scale, unscale};
    Anywhere::State nothing;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      float dx[1];
      body(nothing, {kept.value[i], dy.value[i]}, dx);
      dy.value[i] = dx[0];
    }
  });
  return dy;
}

struct PassBackward {
  const float* kept;  // or null: there was no pass
  AnyParameters act;
  Mask mask;
  /// The activation's derivative is 0 at what dropout made 0, so that no mask is needed.
  bool drops_show;

  PassBackward() = default;
  PassBackward(const Tensor& kept_tensor, const ops::ActivationArgs& args)
      : kept(kept_tensor.defined() ? kept_tensor.raw<float>() : nullptr),
        act(args.act),
        mask(args.dropout),
        drops_show(false) {
    if (args.act) {
      const bool all = args.dropout.mask.drops_everything();
      std::visit([&](const auto& a) { drops_show = !all && math::drops_show(a); }, *args.act);
    }
  }

  /// Whether the mask has to be drawn.
  __device__ __forceinline__ bool drops_unseen() const { return kept != nullptr && !drops_show; }

  /// From gradients of outputs to gradients of inputs, for some quads of a thread.
  template <int quads>
  __device__ __forceinline__ void operator()(float4 (&dy)[quads], const Quad (&from)[quads],
                                             const KeptBits<quads>& bits) const {
    if (kept == nullptr) {
      return;
    }
    Floats<4 * quads> in, incoming;
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      const float quad[4] = {dy[q].x, dy[q].y, dy[q].z, dy[q].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        in.value[4 * q + i] = from[q][i];
        incoming.value[4 * q + i] = quad[i];
      }
    }
    const Floats<4 * quads> dx = activate_backward(act, mask.scale, mask.unscale, in, incoming);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      const float* const x = dx.value + 4 * q;
      dy[q] = make_float4(bits[q] & 1 ? x[0] : 0.0f, bits[q] & 2 ? x[1] : 0.0f,
                          bits[q] & 4 ? x[2] : 0.0f, bits[q] & 8 ? x[3] : 0.0f);
    }
  }
};

}  // namespace sinter::cuda::tile
