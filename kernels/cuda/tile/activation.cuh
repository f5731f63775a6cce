// Any activation of the list, chosen while the kernel runs, so that there are few kernels. What is
// computed for an element is what the element-wise kernels compute, by the same bodies.
#pragma once

#include <algorithm>
#include <optional>
#include <variant>

#include <sinter/kernels/cuda/activation_bodies.cuh>
#include <sinter/kernels/cuda/tile/quads.cuh>

namespace sinter::cuda::tile {

/// An activation as a kernel's argument: its place in the list, and its parameters.
struct AnyParameters {
  int index = math::activation_count;  // the identity
  ActivationValues value{};

  AnyParameters() = default;
  explicit AnyParameters(const std::optional<math::AnyActivation>& act) {
    if (act) {
      index = static_cast<int>(act->index());
      std::visit([&](const auto& a) { value = Parameters(a).values(); }, *act);
    }
  }
};

namespace detail {

// By halves of the list: compilers make a chain of comparisons of anything else. Whatever is past
// the last one is the identity.
template <int first, int count, class F>
__device__ __forceinline__ void visit(int index, F& f) {
  if constexpr (count > 1) {
    constexpr int half = count / 2;
    if (index < first + half) {
      visit<first, half>(index, f);
    } else {
      visit<first + half, count - half>(index, f);
    }
  } else if constexpr (first < math::activation_count) {
    f.template operator()<std::variant_alternative_t<first, math::AnyActivation>>();
  } else {
    f.template operator()<math::Identity>();
  }
}

}  // namespace detail

/// Calls f.template operator()<A>() with the activation's type. For functions that are called, not
/// inlined: a kernel then holds a switch over the list once, and what it does not use of that stays
/// out of the way of the instructions it does.
template <class F>
__device__ __forceinline__ void with_chosen(const AnyParameters& act, F f) {
  detail::visit<0, math::activation_count + 1>(act.index, f);
}

}  // namespace sinter::cuda::tile
