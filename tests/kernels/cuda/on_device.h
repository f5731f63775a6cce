#pragma once

// What the tests of the CUDA kernels share: tensors placed anywhere in device memory, poisoned
// before each call and guarded on both sides, and units of the types that results are stored in.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "../../cuda.h"
#include "../cpu/activation_cases.h"
#include <sinter/kernels/dispatch.h>

namespace sinter::on_device {

/// What a call does that has no CUDA kernel, while this lives. Tests of kernels take `error`: what
/// ran on the CPU would say nothing of them.
class Fallback {
 public:
  explicit Fallback(FallbackPolicy policy) { set_fallback_policy(policy); }
  ~Fallback() { set_fallback_policy(FallbackPolicy::warn); }
  Fallback(const Fallback&) = delete;
  Fallback& operator=(const Fallback&) = delete;
};

/// References are computed on every core, whatever OMP_NUM_THREADS says of the library.
struct AllCores : KeepThreads {
  AllCores() { set_num_threads(std::clamp(int(std::thread::hardware_concurrency()), 1, 64)); }
};

// Stored types. -------------------------------------------------------------------------------

template <class T>
struct Format;  // digits of the significand, exponents of the smallest normal and largest numbers
template <>
struct Format<float> {
  static constexpr int digits = 24, lowest = -126, highest = 127;
};
template <>
struct Format<float16> {
  static constexpr int digits = 11, lowest = -14, highest = 15;
};
template <>
struct Format<bfloat16> {
  static constexpr int digits = 8, lowest = -126, highest = 127;
};

template <class T>
Real epsilon() {
  return std::ldexp(Real{1}, 1 - Format<T>::digits);
}

/// The distance between neighbours of T around x.
template <class T>
Real spacing(Real x) {
  const int exponent = x == 0 || std::isnan(x) || std::isinf(x)
                           ? Format<T>::lowest
                           : std::clamp(std::ilogb(x), Format<T>::lowest, Format<T>::highest);
  return std::ldexp(Real{1}, exponent - (Format<T>::digits - 1));
}

template <class T>
Real value_of(T x) {
  return static_cast<Real>(static_cast<float>(x));
}

template <class T>
T rounded(Real x) {
  return T(static_cast<float>(x));
}

/// |got - want| in units of T at `at`; infinite for a number where NaN is due, and the other way
/// round. An infinity counts as the number that would follow the largest.
template <class T>
Real error_in_units(T got, Real want, Real at) {
  const Real value = value_of(got);
  if (std::isnan(want) || std::isnan(value)) {
    return std::isnan(want) && std::isnan(value) ? 0 : infinity;
  }
  const Real end = std::ldexp(Real{1}, Format<T>::highest + 1);
  return std::abs(std::clamp(value, -end, end) - std::clamp(want, -end, end)) / spacing<T>(at);
}
template <class T>
Real error_in_units(T got, Real want) {
  return error_in_units(got, want, want);
}

/// Empty if `got` has the bytes of `wanted`, where NaN equals NaN; else the first element that
/// differs.
template <class T>
std::string unlike(const std::vector<T>& got, const std::vector<T>& wanted) {
  if (got.size() != wanted.size()) {
    return text(got.size(), " elements instead of ", wanted.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Real value = value_of(got[i]);
    const Real want = value_of(wanted[i]);
    const bool same =
        std::isnan(want) ? std::isnan(value) : std::memcmp(&got[i], &wanted[i], sizeof(T)) == 0;
    if (!same) {
      return text("element ", i, " of ", got.size(), " is ", value, ", not ", want);
    }
  }
  return {};
}

template <class T>
std::vector<T> random_values(std::int64_t n, std::uint64_t seed, double low, double high) {
  Numbers numbers(seed);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) {
    value = rounded<T>(numbers.real(low, high));
  }
  return values;
}

// Tensors on the device. ------------------------------------------------------------------------

template <class T>
Tensor upload(const std::vector<T>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, Device::cuda());
}
template <class T>
Tensor upload(const std::vector<T>& values, const Shape& shape) {
  return Tensor::from(values, shape, Device::cuda());
}
template <class T>
std::vector<T> download(const Tensor& tensor) {
  return tensor.to_vector<T>();
}
template <class T>
Tensor filled(const Shape& shape, double value) {
  return Tensor::full(shape, value, dtype_of<T>, Device::cuda());
}
/// To be overwritten: an element that a kernel leaves out is NaN.
template <class T>
Tensor poisoned(const Shape& shape) {
  return filled<T>(shape, not_a_number);
}

/// A tensor that begins `shift` elements behind an aligned address, between guards that nothing
/// may touch. NaN until something is written.
template <class T>
class Placed {
 public:
  explicit Placed(const Shape& shape, std::int64_t shift = 0)
      : before_(static_cast<std::size_t>(shift)),
        whole_(filled<T>({shift + shape.numel() + after}, guard)),
        tensor(whole_.view_rows(shift, shift + shape.numel()).reshape(shape)) {
    tensor.fill(not_a_number);
  }
  Placed(const Tensor& values, std::int64_t shift) : Placed(values.shape(), shift) {
    tensor.copy_from(values);
  }

  std::vector<T> values() const { return download<T>(tensor); }
  /// "" or what is wrong with the guards.
  std::string damage() const {
    const std::vector<T> all = download<T>(whole_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool inside = i >= before_ && i + after < all.size();
      if (!inside && value_of(all[i]) != Real{guard}) {
        return i < before_ ? "wrote before the first element" : "wrote behind the last element";
      }
    }
    return {};
  }

 private:
  static constexpr double guard = -55;
  static constexpr std::int64_t after = 19;
  std::size_t before_;
  Tensor whole_;

 public:
  Tensor tensor;
};

template <class T>
Tensor forward(const Tensor& x, const ops::ActivationArgs& args) {
  Tensor y = poisoned<T>(x.shape());
  ops::activation_forward(x, y, args);
  return y;
}
template <class T>
Tensor backward(const Tensor& kept, const Tensor& dy, const ops::ActivationArgs& args) {
  Tensor dx = poisoned<T>(dy.shape());
  ops::activation_backward(kept, dy, dx, args);
  return dx;
}

// Activations. ------------------------------------------------------------------------------------

/// Every activation, and settings whose constants are none of the defaults'.
template <class Use>
void for_each_setting(Use use) {
  for_each_activation_case(use);
  use(math::LeakyReLU{.negative_slope = 0.2});
  use(math::Hardtanh{.min_val = -0.5, .max_val = 2});
  use(math::ELU{.alpha = 0.7});
  use(math::Softplus{.beta = 2.5, .threshold = 3});
  use(math::Hardshrink{.lambd = 0.1});
  use(math::Softshrink{.lambd = 1.7});
}

/// "elu(alpha=0.7)"
template <class A>
std::string described(const A& a) {
  std::string list;
  std::apply(
      [&](const auto&... field) {
        ((list += text(list.empty() ? "" : ", ", field.name, "=", a.*field.member)), ...);
      },
      A::fields);
  return text(A::name, list.empty() ? "" : "(" + list + ")");
}

/// With the parameters that float32 arithmetic has.
template <class A>
A in_float32(A a) {
  std::apply([&](auto... f) { ((a.*f.member = static_cast<float>(a.*f.member)), ...); }, A::fields);
  return a;
}

/// Value and slope by the textbook formula: NaN at NaN, the limits at the infinities.
template <class A>
math::Reference exact(const A& a, Real x) {
  if (std::isnan(x)) {
    return {x, x};
  }
  if (!std::isinf(x)) {
    return math::reference(a, x);
  }
  math::Reference far = math::reference(a, std::copysign(Real{1e30L}, x));
  if (std::abs(far.y) > 1e20L) {
    far.y = std::copysign(Real{infinity}, far.y);
  }
  return far;
}

/// A bound of the output as a kernel finds it in a stored output: scaled, rounded to the storage
/// type and scaled back.
template <class T>
struct BoundAsStored {
  double scale = 1;
  double unscale = 1;
  double operator()(double bound) const {
    const float scaled = static_cast<float>(bound) * static_cast<float>(scale);
    return static_cast<double>(value_of(T(scaled))) * unscale;
  }
};

/// The largest error of many and where it was.
struct Worst {
  Real size = 0;
  Real at = 0;
  void see(Real error, Real x) {
    const Real known = std::isnan(error) ? Real{infinity} : error;
    if (known > size) {
      size = known;
      at = x;
    }
  }
  void see(const Worst& other) { see(other.size, other.at); }
};

/// Calls body(i, worsts) for i in [0, n) on all cores; the Worsts of a body are merged.
template <std::size_t count, class Body>
std::array<Worst, count> worst_of(std::int64_t n, Body body) {
  constexpr std::int64_t grain = 4096;
  std::vector<std::array<Worst, count>> parts(static_cast<std::size_t>((n + grain - 1) / grain));
  parallel_ranges(n, grain, [&](std::int64_t begin, std::int64_t end) {
    auto& part = parts[static_cast<std::size_t>(begin / grain)];
    for (std::int64_t i = begin; i < end; ++i) {
      body(static_cast<std::size_t>(i), part);
    }
  });
  std::array<Worst, count> all{};
  for (const auto& part : parts) {
    for (std::size_t k = 0; k < count; ++k) {
      all[k].see(part[k]);
    }
  }
  return all;
}

}  // namespace sinter::on_device
