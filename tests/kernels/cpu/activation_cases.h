#pragma once

// Which activations the tests of the CPU kernels walk through, and what results to expect of one.

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../math/reference.h"
#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {

/// Calls use(a) for every activation of the list, then for some with parameters of their own.
template <class Use>
void for_each_activation_case(Use use) {
  math::for_each_activation([&use]<class A>() { use(A{}); });
  use(math::LeakyReLU{.negative_slope = 0.3});
  use(math::Hardtanh{.min_val = -0.7, .max_val = 6.1});
  use(math::ELU{.alpha = 0.4});
  use(math::CELU{.alpha = 1.7});
  use(math::Softplus{.beta = 2.5, .threshold = 12});
  use(math::Hardshrink{.lambd = 1.3});
  use(math::Softshrink{.lambd = 0.2});
}

/// What the backward pass is given of the forward pass.
template <class A>
const Tensor& kept_of(const Tensor& x, const Tensor& y) {
  return math::derives_from_input<A> ? x : y;
}

/// The activation as it is computed for elements of T: parameters may be float32 there.
template <class T, class A>
A computed_in(const A& a) {
  if constexpr (std::is_same_v<T, float>) {
    return math::as_computed(a);
  } else {
    return a;
  }
}

/// The scale by which what dropout keeps is multiplied, from its definition.
inline Real scale_of(const math::DropoutMask& mask) {
  if (mask.scheme == math::MaskScheme::triton) {
    return 1 / (1 - Real{mask.p});
  }
  const Real threshold = std::floor(Real{mask.p} * 65536 + 0.5L);
  return 65536 / (65536 - threshold);
}

/// Inputs of every kind that an activation tells apart: random ones on both scales, its kinks, 0
/// and far out.
template <class T, class A>
std::vector<T> inputs_for(const A& a, std::size_t count) {
  Numbers numbers(11);
  std::vector<T> x{T(0), T(-0.0), T(1e-20), T(-1e-20), T(30), T(-30), T(90), T(-90)};
  for (const double kink : a.kinks()) {
    x.push_back(static_cast<T>(kink));
    x.push_back(static_cast<T>(kink + 0.01));
    x.push_back(static_cast<T>(kink - 0.01));
  }
  while (x.size() < count) {
    x.push_back(static_cast<T>(numbers.real(-1, 1)));
    x.push_back(static_cast<T>(numbers.real(-12, 12)));
  }
  x.resize(count);
  return x;
}

}  // namespace sinter
