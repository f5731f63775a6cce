#pragma once

// The vocabulary that formulas are written in, so that one text serves every V: float and double,
// and in time vectors of floats. Constants enter through splat, branches through select, and the
// elementary functions are found here instead of in std, whose float overloads are weak symbols.
// Their names are those of <math.h>: a using-directive for this namespace at global scope makes
// every plain sqrt(2.0) ambiguous, in CUDA's own headers too.

#include <math.h>

#include <sinter/kernels/math/hd.h>

namespace sinter::math {

template <class V>
SINTER_HD constexpr V splat(double value) {
  return static_cast<V>(value);
}

// Both sides are evaluated, as a vector would: neither may trap, and only the chosen one counts.
template <class Condition, class V>
SINTER_HD constexpr V select(Condition condition, V chosen, V otherwise) {
  return condition ? chosen : otherwise;
}

// A NaN in the first argument comes through; the second must be a number. This is the order of
// operands in which x86 has the operation as one instruction.
template <class V>
SINTER_HD constexpr V min(V x, V bound) {
  return select(bound < x, bound, x);
}

template <class V>
SINTER_HD constexpr V max(V x, V bound) {
  return select(x < bound, bound, x);
}

// x - x is 0 for every number, NaN for an infinity; std::isfinite is not constexpr in C++20.
SINTER_HD constexpr bool finite(double x) { return x - x == 0; }

template <class V>
SINTER_HD constexpr V clamp(V x, double low, double high) {
  return min(max(x, splat<V>(low)), splat<V>(high));
}

// For results that come from comparisons, in which a NaN would otherwise be lost.
template <class V>
SINTER_HD constexpr V unless_nan(V x, V value) {
  return select(x != x, x, value);
}

SINTER_HD float abs(float x) { return ::fabsf(x); }
SINTER_HD double abs(double x) { return ::fabs(x); }
SINTER_HD float copysign(float x, float sign) { return ::copysignf(x, sign); }
SINTER_HD double copysign(double x, double sign) { return ::copysign(x, sign); }
SINTER_HD float sqrt(float x) { return ::sqrtf(x); }
SINTER_HD double sqrt(double x) { return ::sqrt(x); }
SINTER_HD float exp(float x) { return ::expf(x); }
SINTER_HD double exp(double x) { return ::exp(x); }
SINTER_HD float expm1(float x) { return ::expm1f(x); }
SINTER_HD double expm1(double x) { return ::expm1(x); }
SINTER_HD float log1p(float x) { return ::log1pf(x); }
SINTER_HD double log1p(double x) { return ::log1p(x); }
SINTER_HD float tanh(float x) { return ::tanhf(x); }
SINTER_HD double tanh(double x) { return ::tanh(x); }
SINTER_HD float erfc(float x) { return ::erfcf(x); }
SINTER_HD double erfc(double x) { return ::erfc(x); }

}  // namespace sinter::math
