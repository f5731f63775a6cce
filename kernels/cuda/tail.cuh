// What stands behind a norm in the same pass: activation and dropout, both chosen while the kernel
// runs.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/tile/activation.cuh>
#include <sinter/kernels/cuda/tile/dropout.cuh>

namespace sinter::cuda {

inline bool is_identity(const ops::ActivationArgs& tail) {
  return !tail.act && tail.dropout.mask.is_identity();
}

struct Tail {
  tile::AnyParameters act;
  tile::Mask mask;
  bool from_z;  ///< the derivative is taken from the activation's input

  explicit Tail(const ops::ActivationArgs& args)
      : act(args.act), mask(args.dropout), from_z(args.act && math::needs_input(*args.act)) {}
};

/// Which of `count` elements from `at` on dropout keeps; see keeps().
template <int count>
__device__ __forceinline__ tile::KeptBits<(count + 3) / 4> kept_of(const tile::Mask& mask,
                                                                   std::int64_t at) {
  constexpr int quads = (count + 3) / 4;
  tile::KeptBits<quads> kept(mask);
  if (mask.kind != tile::Mask::Kind::none) {
    const auto element = static_cast<std::uint64_t>(at);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      kept.prepare(q, element + 4 * q);
    }
    if constexpr (quads == 2) {
      kept.draw_pair(0, element);
    } else {
      kept.draw(0, element);
    }
  }
  return kept;
}
template <class Bits>
__device__ __forceinline__ bool keeps(const Bits& kept, int e) {
  return (kept[e / 4] >> (e % 4) & 1) != 0;
}

/// An activation's derivative where its input and its output are known, not rounded.
template <class A, class N>
__device__ __forceinline__ float slope_at(const A& act, N z, N y) {
  if constexpr (math::derives_from_input<A>) {
    return act.derivative_from_input(z).value;
  } else {
    return math::derivative_from_output(act, y, math::AsStored{}).value;
  }
}

namespace detail {

template <class T, int count>
struct Values {
  const tile::AnyParameters& act;
  float (&value)[count];

  template <class A>
  __device__ __forceinline__ void operator()() const {
    const A chosen = Parameters<A>(act.value).activation();
#pragma unroll
    for (int e = 0; e < count; ++e) {
      value[e] = chosen.forward(Number<T>(value[e])).value;
    }
  }
};

}  // namespace detail

/// value = dropout(act(value)) for elements from `at` on of tensors of T.
template <class T, int count>
__device__ __forceinline__ void go_through(const Tail& tail, std::int64_t at,
                                           float (&value)[count]) {
  const auto kept = kept_of<count>(tail.mask, at);
  tile::with_chosen(tail.act, detail::Values<T, count>{tail.act, value});
#pragma unroll
  for (int e = 0; e < count; ++e) {
    value[e] = keeps(kept, e) ? value[e] * tail.mask.scale : 0.0f;
  }
}

/// The way back for elements from `at` on: grad times what the mask does, and times the slopes that
/// `slopes`, called with the activation's type, puts into `slope`; exactly 0 where either is 0.
template <int count, class Slopes>
__device__ __forceinline__ void go_back(const Tail& tail, std::int64_t at, const Slopes& slopes,
                                        const float (&slope)[count], float (&grad)[count]) {
  const auto kept = kept_of<count>(tail.mask, at);
  tile::with_chosen(tail.act, slopes);
#pragma unroll
  for (int e = 0; e < count; ++e) {
    const bool flows = keeps(kept, e) && slope[e] != 0;
    grad[e] = flows ? grad[e] * tail.mask.scale * slope[e] : 0.0f;
  }
}

}  // namespace sinter::cuda
