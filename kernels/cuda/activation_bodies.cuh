// What the passes of activations compute for one element, for every activation of the list.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include <sinter/kernels/cuda/pass.cuh>
#include <sinter/kernels/cuda/unit.cuh>
#include <sinter/kernels/math/activations.h>

namespace sinter::cuda {

/// The most parameters that an activation of the list has.
inline constexpr int most_parameters = [] {
  int most = 1;
  math::for_each_activation([&]<class A>() {
    const int count = std::tuple_size_v<std::remove_cvref_t<decltype(A::fields)>>;
    most = count > most ? count : most;
  });
  return most;
}();

/// The parameters of whichever activation.
struct ActivationValues {
  float value[most_parameters];
};

/// An activation's parameters as a kernel gets them: in float32, for a GPU converts a double as
/// slowly as it computes eight roots.
template <class A>
class Parameters {
  static constexpr int count = std::tuple_size_v<std::remove_cvref_t<decltype(A::fields)>>;
  using Places = std::make_index_sequence<count>;

 public:
  Parameters(const A& act) { take(act, Places{}); }
  __device__ explicit Parameters(const ActivationValues& values) {
    for (int i = 0; i < count; ++i) {
      values_[i] = values.value[i];
    }
  }
  __device__ A activation() const { return give(Places{}); }
  ActivationValues values() const {
    ActivationValues all{};
    for (int i = 0; i < count; ++i) {
      all.value[i] = values_[i];
    }
    return all;
  }

 private:
  template <std::size_t I>
  static constexpr auto member = std::get<I>(A::fields).member;

  template <std::size_t... I>
  void take(const A& act, std::index_sequence<I...>) {
    ((values_[I] = static_cast<float>(act.*member<I>)), ...);
  }
  template <std::size_t... I>
  __device__ A give(std::index_sequence<I...>) const {
    A act{};
    ((act.*member<I> = values_[I]), ...);
    return act;
  }

  float values_[count == 0 ? 1 : count] = {};
};

/// y = act(x), times the scale of a mask.
template <class A, class T, bool Scaled>
struct Forward : Anywhere {
  static constexpr int inputs = 1, outputs = 1;
  Parameters<A> act;
  float scale;

  __device__ void operator()(State&, const float (&x)[1], float (&y)[1]) const {
    const float value = act.activation().forward(Number<T>(x[0])).value;
    y[0] = Scaled ? value * scale : value;
  }
};

/// A bound of an activation as it comes back from storage: scaled, rounded to T and unscaled, as
/// the output was.
template <class T>
struct AsKept {
  float scale;
  float unscale;

  template <class V>
  __device__ V operator()(V bound) const {
    return V(to_float(from_float<T>(bound.value * scale)) * unscale);
  }
};

/// dx = dy * act', from x or y as the activation has it; exactly 0 where the function is flat.
template <class A, class T>
struct Backward : Anywhere {
  static constexpr int inputs = 2, outputs = 1;
  Parameters<A> act;
  float scale;
  float unscale;

  __device__ Number<T> derivative(Number<T> kept) const {
    if constexpr (math::derives_from_input<A>) {
      return act.activation().derivative_from_input(kept);
    } else {
      return math::derivative_from_output(act.activation(), kept * Number<T>(unscale),
                                          AsKept<T>{scale, unscale});
    }
  }
  __device__ void operator()(State&, const float (&x)[2], float (&y)[1]) const {
    const float slope = derivative(Number<T>(x[0])).value;
    y[0] = slope == 0 ? 0.0f : x[1] * scale * slope;
  }
};

/// Calls f(act) with the activation's own type, math::Identity for none.
template <class F>
void with_activation(const std::optional<math::AnyActivation>& act, F f) {
  if (act) {
    std::visit(f, *act);
  } else {
    f(math::Identity{});
  }
}

/// Calls f with the type of mask that a dropout needs, which drops some elements, not all.
template <class F>
void with_mask(const math::DropoutMask& mask, F f) {
  if (mask.is_identity()) {
    f(std::type_identity<NoMask>{});
  } else if (mask.scheme == math::MaskScheme::lanes) {
    f(std::type_identity<LanesMask>{});
  } else {
    f(std::type_identity<TritonMask>{});
  }
}

}  // namespace sinter::cuda
