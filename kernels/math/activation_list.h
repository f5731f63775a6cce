#pragma once

// What follows from the list that ends activations.h: a variant of all activations, their number
// and a loop over them. Included by that file; include that one.

#include <variant>

#include <sinter/kernels/math/activation.h>
#include <sinter/kernels/math/activations.h>
#include <sinter/kernels/math/hd.h>

namespace sinter::math {

// The list as types; `void` takes the place before its leading comma.
template <class, Activation... As>
struct ActivationList {
  using Variant = std::variant<As...>;
  static constexpr int count = sizeof...(As);

  template <class F>
  SINTER_HOST_INLINE static constexpr void for_each(F& f) {
    (f.template operator()<As>(), ...);
  }
};

#define SINTER_LISTED_TYPE(Type, function) , Type
using Activations = ActivationList<void SINTER_ACTIVATIONS(SINTER_LISTED_TYPE)>;
#undef SINTER_LISTED_TYPE

#define SINTER_LISTED_NAME(Type, function) static_assert(Type::name == #function);
SINTER_ACTIVATIONS(SINTER_LISTED_NAME)
#undef SINTER_LISTED_NAME

using AnyActivation = Activations::Variant;

// Whether its derivative is taken from the input, not from the output.
SINTER_HOST_INLINE constexpr bool needs_input(const AnyActivation& act) {
  return std::visit([]<class A>(const A&) { return derives_from_input<A>; }, act);
}

inline constexpr int activation_count = Activations::count;

// Calls f.template operator()<A>() for every activation, in the order of the list.
template <class F>
SINTER_HOST_INLINE constexpr void for_each_activation(F&& f) {
  Activations::for_each(f);
}

}  // namespace sinter::math
