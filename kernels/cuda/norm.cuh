// What the kernels of norms know of the activation and the dropout behind the norm. The activation
// is chosen while they run, once for all vectors that a thread has of a row: these then go through
// a loop, since what is unrolled would stand in the kernel for each activation of the list.
#pragma once

#include <cstdint>
#include <type_traits>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/mask.cuh>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/kernels/cuda/tail.cuh>

namespace sinter::cuda {

/// Nothing stands behind the norm.
struct Bare {};
template <class M>
struct Behind {
  using Mask = M;
  tile::AnyParameters act;
  Mask mask;
  float scale;
};
template <class Tail>
inline constexpr bool has_tail = !std::is_same_v<Tail, Bare>;

/// The argument of a norm's kernel: a call, and what stands behind the norm.
template <class Call, class Tail>
struct NormTask : Call {
  Tail tail;
};

/// Calls f with what stands behind norms of n elements, as kernels take it. False if they do not:
/// masks of another scheme, or groups of the mask that rows share.
template <class F>
bool with_norm_tail(const ops::ActivationArgs& tail, std::int64_t n, std::int64_t columns, F f) {
  const ops::DropoutArgs& dropout = tail.dropout;
  const auto behind = [&]<class Mask>(std::type_identity<Mask>) {
    const auto* live_step =
        dropout.live_step.defined() ? dropout.live_step.raw<std::uint32_t>() : nullptr;
    f(Behind<Mask>{tile::AnyParameters(tail.act), Mask(dropout.mask, dropout.first, live_step),
                   static_cast<float>(dropout.mask.scale())});
    return true;
  };
  if (is_identity(tail)) {
    f(Bare{});
    return true;
  }
  if (dropout.mask.is_identity()) {
    return behind(std::type_identity<NoMask>{});
  }
  constexpr std::uint64_t longest = std::uint64_t{1} << 35;  // see LanesMask
  const bool suits = dropout.mask.scheme == math::MaskScheme::lanes && dropout.first % 8 == 0 &&
                     columns % 8 == 0 &&
                     dropout.first % longest + static_cast<std::uint64_t>(n) <= longest;
  return suits && behind(std::type_identity<LanesMask>{});
}

/// z of a vector that lies at `column` of a row.
template <class T, class Call>
__device__ Vector<T> z_of(const Call& call, std::int64_t column, const Vector<T>& x, float mean,
                          float rstd) {
  Vector<T> w, b{}, z;
#pragma unroll
  for (float& value : w.value) {
    value = 1;
  }
  if (call.weight != nullptr) {
    w = load(call.weight + column);
  }
  if (call.bias != nullptr) {
    b = load(call.bias + column);
  }
#pragma unroll
  for (int e = 0; e < width<T>; ++e) {
    z.value[e] = fmaf((x.value[e] - mean) * rstd, w.value[e], b.value[e]);
  }
  return z;
}

/// Bit i: of a thread's vectors of a row, from vector `first` on, the i-th element is kept. By all
/// lanes of a warp; `row`: the place of the row's first element.
template <class T, int threads, int vectors, class Mask>
__device__ std::uint32_t kept_of_row(const Mask& mask, std::int64_t row, int first) {
  static_assert(vectors * width<T> <= 32);
  if constexpr (Mask::drops) {
    constexpr int at_a_time = 8 / width<T>;
    static_assert(vectors % at_a_time == 0);
    const auto begun = mask.begin();
    std::uint32_t kept = 0;
#pragma unroll
    for (int v = 0; v < vectors; v += at_a_time) {
      const auto group = static_cast<std::uint32_t>(row / 8) +
                         static_cast<std::uint32_t>((first + v) * threads / at_a_time);
      const auto lanes =
          lanes_of<T, threads>(mask, begun, group, static_cast<unsigned>(Team<threads>::rank()));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::uint32_t word = lanes.word[i / width<T>][i % width<T> / 2];
        const bool keeps = i % 2 == 0 ? mask.keeps_low(word) : mask.keeps_high(word);
        kept |= keeps ? 1u << (v * width<T> + i) : 0u;
      }
    }
    return kept;
  } else {
    return ~0u;
  }
}

}  // namespace sinter::cuda
