#pragma once

// What an activation is: the concept that every struct of activations.h meets, and the small types
// that its description is made of. Everything else (CPU loops, layers, the builder's
// names, test rows, the page in docs) is derived from such a struct.

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <sinter/kernels/math/functions.h>

namespace sinter::math {

using Text = std::string_view;

template <class A>
using Parameter = double A::*;

// Parameters are double, so that 0.1 is 0.1 in float64; splat rounds them to the type computed in,
// and in float32 arithmetic a parameter is the nearest float32.
template <class A>
struct Field {
  Text name;
  Parameter<A> member;
};
template <class A>
Field(const char*, double A::*) -> Field<A>;

// What an activation without parameters need not say. (One with parameters has no base, for a class
// with a base takes no designated initializers.)
struct Parameterless {
  static constexpr Text requirement = "";
  static constexpr std::tuple<> fields{};
  SINTER_HD constexpr std::array<double, 0> kinks() const { return {}; }
  SINTER_HD constexpr bool valid() const { return true; }
};

struct Known {
  double x;
  double y;
};

// How a bound of the output looks after everything that y went through on its way into storage and
// back: rounding to the storage type and, with dropout, multiplying by the scale before it and by
// the scale's inverse after it. A stored y that sat on its bound equals stored(bound), not bound.
// The default is for a y that was never rounded.
struct AsStored {
  template <class V>
  SINTER_HD V operator()(V bound) const {
    return bound;
  }
};

template <class A>
inline constexpr bool derives_from_input = requires(const A a, double v) {
  { a.derivative_from_input(v) } -> std::same_as<double>;
};

template <class A>
inline constexpr bool derives_from_output = requires(const A a, double v) {
  { a.derivative_from_output(v) } -> std::same_as<double>;
};

// Lets a kernel pass `stored` without asking whether the activation has a bound to compare with.
template <class V, class A, class Stored = AsStored>
SINTER_HD V derivative_from_output(const A& activation, V y, Stored stored = {}) {
  if constexpr (requires { activation.derivative_from_output(y, stored); }) {
    return activation.derivative_from_output(y, stored);
  } else {
    return activation.derivative_from_output(y);
  }
}

// The activation of a pass without one, in no list.
struct Identity {
  static constexpr Text name = "identity";
  static constexpr std::tuple<> fields{};
  static constexpr bool wide = false;
  template <class V>
  SINTER_HD V forward(V x) const {
    return x;
  }
  template <class V>
  SINTER_HD V derivative_from_output(V) const {
    return splat<V>(1);
  }
};

// Whether an element that dropout made 0 has derivative 0 there anyway, so that backward need not
// draw the mask again.
template <class A>
SINTER_HOST_INLINE bool drops_show([[maybe_unused]] const A& activation) {
  if constexpr (derives_from_input<A>) {
    return false;
  } else {
    return derivative_from_output(activation, 0.0) == 0;
  }
}

namespace detail {

template <class A, class V>
concept Computes = requires(const A a, V v) {
  { a.template forward<V>(v) } -> std::same_as<V>;
};

template <class A>
inline constexpr bool has_one_derivative = derives_from_input<A> != derives_from_output<A>;

template <class A>
inline constexpr std::size_t field_count =
    std::tuple_size_v<std::remove_cvref_t<decltype(A::fields)>>;

// A struct with nothing in it has size 1, one with n doubles n * sizeof(double): a parameter that
// was left out of `fields` could not be named by the builder nor saved, so it must not compile.
template <class A>
inline constexpr bool lists_every_field = field_count<A> == 0
                                              ? std::is_empty_v<A>
                                              : sizeof(A) == field_count<A> * sizeof(double);

template <class A>
inline constexpr bool is_valid_by_default = A().valid();

}  // namespace detail

// - forward(x) and exactly one of derivative_from_input(x) / derivative_from_output(y). The choice
//   decides what a tape keeps: from-output activations keep what the next layer keeps anyway.
//   derivative_from_output(y, stored) where y is compared with a bound: see AsStored.
// - NaN gives NaN; the limits at +-infinity are right; nothing overflows, underflows early or
//   cancels near 0 on the way; a derivative is exactly 0 where the function is flat.
// - kinks(): where the derivative can jump (for elu it does unless alpha is 1). Its value there is
//   PyTorch's.
// - known: values at the default parameters from closed forms, one line of evidence for a reader.
// - requirement and valid(): which parameters make sense, in words ("" if any finite ones do) and
//   as a test.
// - wide: whether float32 results need more than float32 arithmetic to be within 2 ulp: several
//   roundings in a row, a cancellation beside a root, the tail of e^x. The CPU then computes in
//   vectors of doubles and rounds once. Where it is false, float32 keeps that promise everywhere.
template <class A>
concept Activation = std::is_aggregate_v<A> && std::is_trivially_copyable_v<A> &&
    detail::Computes<A, float> && detail::Computes<A, double> && detail::has_one_derivative<A> &&
    detail::lists_every_field<A> && detail::is_valid_by_default<A> && requires(const A a) {
  { A::name } -> std::same_as<const Text&>;
  { A::formula } -> std::same_as<const Text&>;
  { A::requirement } -> std::same_as<const Text&>;
  { A::wide } -> std::same_as<const bool&>;
  { A::known[0] } -> std::same_as<const Known&>;
  { a.kinks()[0] } -> std::convertible_to<double>;
};

}  // namespace sinter::math
