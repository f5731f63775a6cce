// Draws for weights and shuffles: fixed for good, since a seed must mean the same run tomorrow.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/math/uniform.h>

namespace sinter::math {
namespace {

TEST_CASE("known answers") {
  // By hand: domain 1 under the seed 0x9e3779b97f4a7c15 is the key 0, whose first words are
  // Random123's 6627e8d5 e169c58d.
  const std::uint64_t seed = 0x9e3779b97f4a7c15;
  CHECK(domain_key(seed, Domain::initial_weights) == 0);
  CHECK(draw_bits(seed, Domain::initial_weights, 0, 0) == 0xe169c58d6627e8d5);
  CHECK(uniform_double(seed, Domain::initial_weights, 0, 0) ==
        static_cast<double>(0xe169c58d6627e8d5 >> 11) / 9007199254740992.0);
  CHECK(bounded(seed, Domain::initial_weights, 0, 0, 16) == 0xe);
  CHECK(bounded(seed, Domain::initial_weights, 0, 0, 256) == 0xe1);
}

TEST_CASE("the high half of a product") {
  CHECK(multiply_high(~0ull, ~0ull) == ~0ull - 1);
  CHECK(multiply_high(1ull << 63, 2) == 1);
  CHECK(multiply_high(0x123456789abcdef0, 0xfedcba9876543210) == 0x121fa00ad77d7422);
  CHECK(multiply_high(0xffffffff, 0xffffffff) == 0);
  CHECK(multiply_high(0x1ffffffff, 0xffffffffffffffff) == 0x1fffffffe);
}

TEST_CASE("uniforms fill [0, 1) evenly and differ by every argument") {
  const int n = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = uniform_double(7, Domain::initial_weights, 3, static_cast<std::uint64_t>(i));
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u;
    squares += u * u;
  }
  CHECK(std::abs(sum / n - 0.5) < 4 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(squares / n - 1.0 / 3) < 4 * std::sqrt(4.0 / 45 / n));
  const double u = uniform_double(7, Domain::initial_weights, 3, 5);
  CHECK(u != uniform_double(8, Domain::initial_weights, 3, 5));
  CHECK(u != uniform_double(7, Domain::shuffling, 3, 5));
  CHECK(u != uniform_double(7, Domain::initial_weights, 4, 5));
  CHECK(u != uniform_double(7, Domain::initial_weights, 3, 6));
  CHECK(u != uniform_double(7, Domain::initial_weights, 3, 5 + (1ull << 32)));
}

TEST_CASE("no domain meets dropout's key") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    const std::uint64_t weights = domain_key(seed, Domain::initial_weights);
    const std::uint64_t shuffling = domain_key(seed, Domain::shuffling);
    CHECK(weights != seed);
    CHECK(shuffling != seed);
    CHECK(weights != shuffling);
  }
}

TEST_CASE("bounded draws make a fair shuffle") {
  // Every one of the 24 orders of 4, over 48,000 epochs: chi-squared with 23 degrees of freedom.
  std::vector<int> seen(256);
  for (std::uint32_t epoch = 0; epoch < 48000; ++epoch) {
    int order[4] = {0, 1, 2, 3};
    for (std::uint64_t i = 3; i > 0; --i) {
      const std::uint64_t j = bounded(1, Domain::shuffling, epoch, i, i + 1);
      REQUIRE(j <= i);
      std::swap(order[i], order[j]);
    }
    ++seen[static_cast<std::size_t>(order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3])];
  }
  double chi_squared = 0;
  int orders = 0;
  for (const int count : seen) {
    if (count == 0) continue;
    ++orders;
    chi_squared += (count - 2000.0) * (count - 2000.0) / 2000.0;
  }
  CHECK(orders == 24);
  CHECK(chi_squared < 50);  // exceeded once in a thousand seeds
}

}  // namespace
}  // namespace sinter::math
