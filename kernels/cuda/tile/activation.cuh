// Any activation of the list, chosen while the kernel runs, so that there are few kernels. What is
// computed for an element is what the element-wise kernels compute, by the same bodies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
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

template <class F, std::size_t... I>
__device__ __forceinline__ void visit(int index, F& f, std::index_sequence<I...>) {
  (void)((index == static_cast<int>(I) &&
          (f.template operator()<std::variant_alternative_t<I, math::AnyActivation>>(), true)) ||
         ... || (f.template operator()<math::Identity>(), true));
}

}  // namespace detail

/// Calls f.template operator()<A>() with the activation's type. For functions that are called, not
/// inlined: a kernel then holds a switch over the list once, and what it does not use of that stays
/// out of the way of the instructions it does.
template <class F>
__device__ __forceinline__ void with_chosen(const AnyParameters& act, F f) {
  detail::visit(act.index, f, std::make_index_sequence<math::activation_count>{});
}

}  // namespace sinter::cuda::tile
