// The parameters at which the tests try each activation: its defaults, and others where it has any.
#pragma once

#include <tuple>
#include <vector>

#include <sinter/kernels/math/activations.h>

namespace sinter::testing {

template <class A>
std::vector<A> settings() {
  std::vector<A> out{A{}};
  if constexpr (std::tuple_size_v<std::remove_cvref_t<decltype(A::fields)>> != 0) {
    A other;
    std::apply([&other](const auto&... field) { ((other.*field.member *= 1.7), ...); }, A::fields);
    out.push_back(other);
  }
  return out;
}

}  // namespace sinter::testing
