// What the tests of autograd and of the layers share.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "numbers.h"
#include <sinter/kernels/dispatch.h>

namespace sinter::testing {

inline Tensor leaf(const Shape& shape, double spread = 2.0, std::uint32_t seed = 1,
                   DType dtype = DType::float64) {
  Tensor out = tensor(shape, spread, seed, dtype);
  out.set_requires_grad();
  return out;
}

/// A leaf of given float64 values.
inline Tensor leaf_of(const std::vector<double>& values) {
  Tensor out = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  out.set_requires_grad();
  return out;
}

/// No warnings about kernels that the fake device lacks while it lives.
struct QuietFallback {
  QuietFallback() { set_fallback_policy(FallbackPolicy::silent); }
  ~QuietFallback() { set_fallback_policy(FallbackPolicy::warn); }
};

/// Checks that `f` throws an Error that says all of `parts`.
template <class F>
void check_error(F f, std::initializer_list<std::string_view> parts) {
  const std::string message = error_of(f);
  CAPTURE(message);
  CHECK_MESSAGE(!message.empty(), "no Error was thrown");
  for (const std::string_view part : parts) {
    CAPTURE(part);
    CHECK(contains(message, part));
  }
}

}  // namespace sinter::testing
