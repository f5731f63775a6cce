// What follows a product that is the gradient of a pass's output: the pass's own derivative.
#pragma once

#include <sinter/kernels/cuda/tile/activation.cuh>
#include <sinter/kernels/cuda/tile/dropout.cuh>

namespace sinter::cuda::tile {

/// dy * d(act)/dx from what was kept, times the scale.
static __device__ __noinline__ float4 activate_backward(AnyParameters act, float scale,
                                                        float unscale, float4 kept, float4 dy) {
  const float from[4] = {kept.x, kept.y, kept.z, kept.w};
  const float in[4] = {dy.x, dy.y, dy.z, dy.w};
  float out[4];
  with_chosen(act, [&]<class A>() {
    const Backward<A, float> body{{}, Parameters<A>(act.value), scale, unscale};
    Anywhere::State nothing;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float dx[1];
      body(nothing, {from[i], in[i]}, dx);
      out[i] = dx[0];
    }
  });
  return make_float4(out[0], out[1], out[2], out[3]);
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

  __device__ __forceinline__ std::uint32_t kept_bits(std::uint64_t element) const {
    return kept == nullptr || drops_show ? 0xfu : tile::kept(mask, element);
  }

  __device__ __forceinline__ float4 operator()(float4 dy, const Quad& from,
                                               std::uint32_t bits) const {
    if (kept == nullptr) {
      return dy;
    }
    const float4 dx = activate_backward(act, mask.scale, mask.unscale,
                                        make_float4(from[0], from[1], from[2], from[3]), dy);
    return make_float4(bits & 1 ? dx.x : 0.0f, bits & 2 ? dx.y : 0.0f, bits & 4 ? dx.z : 0.0f,
                       bits & 8 ? dx.w : 0.0f);
  }
};

}  // namespace sinter::cuda::tile
