// The GPU's kernels on tensors of 10^8 elements and of more than 2^31. Left out where the device
// has no room for them, aloud.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"
#include <sinter/runtime/error.h>
#include <sinter/runtime/pool.h>

namespace sinter::on_device {
namespace {

/// Gives the blocks of a large test back to the device when it ends.
struct TrimAtEnd {
  ~TrimAtEnd() {
    pool_trim(Device::cuda());
    pool_trim(Device::cpu());
  }
};

TEST_CASE("CUDA large: 10^8 elements are dropped as on the CPU") {
  if (!has_gpu()) {
    return;
  }
  const TrimAtEnd trim;
  const Fallback none(FallbackPolicy::error);
  const AllCores cores;
  const std::int64_t n = 100'000'000;
  const Tensor ones = filled<float>({n}, 1);
  const Tensor ones_here = Tensor::full({n}, 1);
  Tensor y = filled<float>({n}, not_a_number);
  Tensor here = Tensor::empty({n});
  Tensor there = Tensor::empty({n});
  for (const double p : {0.1, 0.5, 0.9}) {
    for (const std::uint64_t seed :
         {std::uint64_t{1}, std::uint64_t{0x0123456789abcdef}, ~std::uint64_t{0}}) {
      CAPTURE(p);
      CAPTURE(seed);
      const ops::DropoutArgs args{math::dropout_mask(p, seed, 4, 1000), 0};
      y.fill(not_a_number);
      ops::dropout(ones, y, args);
      there.copy_from(y);
      ops::dropout(ones_here, here, args);
      CHECK(std::memcmp(there.address(), here.address(), here.bytes()) == 0);
      // And that the two have not just both done nothing: the share of what is kept, to 6 sigma.
      const auto values = here.values<float>();
      const auto kept = static_cast<double>(
          std::count_if(values.begin(), values.end(), [](float v) { return v != 0; }));
      const double share = 1 - std::round(p * 65536) / 65536;
      const double sigma = std::sqrt(share * (1 - share) * static_cast<double>(n));
      CHECK(std::abs(kept - share * static_cast<double>(n)) < 6 * sigma);
    }
  }
}

// x is 1 everywhere but at the ends, around 2^30 and around 2^31, where it counts from -8 in
// quarters.
template <class T>
void check_beyond_32_bits() {
  const TrimAtEnd trim;
  const std::int64_t n = (std::int64_t{1} << 31) + 16;
  Tensor x, y;
  try {
    x = filled<T>({n}, 1);
    y = filled<T>({n}, not_a_number);
  } catch (const Error& error) {
    MESSAGE("SKIPPED (the device has no room for 2 * (2^31 + 16) elements: ", error.what(), ")");
    return;
  }
  constexpr std::int64_t probe = 64;
  const std::int64_t places[] = {0, (std::int64_t{1} << 30) - 32, n - 16 - probe, n - probe};
  std::vector<T> counting(probe);
  for (std::size_t i = 0; i < counting.size(); ++i) {
    counting[i] = T(static_cast<float>(i) / 4 - 8);
  }
  for (const std::int64_t place : places) {
    x.view_rows(place, place + probe).copy_from(std::span<const T>(counting));
  }
  const auto check = [&](const char* what, const math::DropoutMask& mask, auto value, double ulps) {
    const auto scale = Real{mask.scale()};
    std::string wrong;
    for (const std::int64_t place : places) {
      const std::vector<T> in = download<T>(x.view_rows(place, place + probe));
      const std::vector<T> got = download<T>(y.view_rows(place, place + probe));
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool kept = mask.keep(static_cast<std::uint64_t>(place) + i);
        const Real want = kept ? value(value_of(in[i])) * scale : 0;
        if (error_in_units(got[i], want) > (kept ? ulps : 0)) {
          wrong = text("element ", place + static_cast<std::int64_t>(i), " is ", value_of(got[i]),
                       ", not ", want);
        }
      }
    }
    CHECK_MESSAGE(wrong == "", what);
  };
  const math::DropoutMask mask = math::dropout_mask(0.3, 9, 1, 2);
  const math::DropoutMask keep_all = math::dropout_mask(0, 9, 1, 2);
  const auto sigmoid = [](Real v) { return math::reference(math::Sigmoid{}, v).y; };

  ops::activation_forward(x, y, {.act = math::Sigmoid{}, .dropout = {}, .stored = dtype_of<T>});
  check("forward", keep_all, sigmoid, 2);
  y.fill(not_a_number);
  ops::activation_forward(x, y,
                          {.act = math::Sigmoid{}, .dropout = {mask, 0}, .stored = dtype_of<T>});
  check("forward with dropout", mask, sigmoid, 4);
  y.fill(not_a_number);
  ops::dropout(x, y, {mask, 0});
  check(
      "dropout", mask, [](Real v) { return v; }, 1);
  y.fill(1);  // dy, over which dx is written: a third tensor would not fit on every device
  ops::activation_backward(x, y, y,
                           {.act = math::Softplus{}, .dropout = {mask, 0}, .stored = dtype_of<T>});
  check(
      "backward", mask, [](Real v) { return math::reference(math::Softplus{}, v).slope; }, 8);
}

TEST_CASE("CUDA large: 2^31 + 16 elements of float32, the last 16 right") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  check_beyond_32_bits<float>();
}

TEST_CASE("CUDA large: 2^31 + 16 elements of float16, the last 16 right") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  check_beyond_32_bits<float16>();
}

}  // namespace
}  // namespace sinter::on_device
