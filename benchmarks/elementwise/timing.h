// How element-wise work is timed: how many elements, of what values, how often.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace bench {

/// 128 KiB of float32 a tensor; what an op touches, up to three, stays in the second-level cache.
inline constexpr std::int64_t elements = 32768;
inline constexpr int repetitions = 31;

/// Median over repetitions, each of enough calls to last 100 us.
template <class Run>
double ns_an_element(Run&& run) {
  using Clock = std::chrono::steady_clock;
  const auto us_of = [&](int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      run();
    }
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  };
  int calls = 1;
  while (us_of(calls) < 100) {
    calls *= 2;
  }
  std::vector<double> all;
  for (int i = 0; i < repetitions; ++i) {
    all.push_back(1e3 * us_of(calls) / static_cast<double>(calls * elements));
  }
  std::ranges::nth_element(all, all.begin() + repetitions / 2);
  return all[repetitions / 2];
}

/// About normal, as the input of an activation is: `spread` is the standard deviation.
inline sinter::Tensor normal(const sinter::Shape& shape, double spread) {
  sinter::Tensor out = sinter::Tensor::empty(shape);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    double sum = -6;
    for (int k = 0; k < 12; ++k) {
      state = state * 1664525u + 1013904223u;
      sum += state / 4294967296.0;
    }
    out.data<float>()[i] = static_cast<float>(spread * sum);
  }
  return out;
}

}  // namespace bench
