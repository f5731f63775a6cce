// The mask is fixed for good, since checkpoints depend on it: known answers, then the bulk form
// against the definition, then what p means at its ends.

// The bulk form as the plainest copy of the kernels has it.
#define SINTER_CPU_PATH baseline

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/kernels/cpu/isa/dropout_block.h>
#include <sinter/kernels/math/dropout.h>

namespace sinter::math {
namespace {

constexpr std::uint64_t seed = 0x0123456789abcdef;

TEST_CASE("lanes: known answers") {
  struct Answer {
    std::uint64_t seed;
    std::uint32_t call, step;
    std::uint64_t element;
    std::uint32_t lane;
    bool kept;
  };
  const Answer answers[] = {{0, 0, 0, 0, 0xe8d5, true},
                            {0, 0, 0, 1, 0x6627, true},
                            {seed, 3, 7, 0, 0xca2f, true},
                            {seed, 3, 7, 5, 0x9715, true},
                            {seed, 3, 8, 5, 0xcecc, true},
                            {seed, 4, 7, 5, 0x7351, true},
                            {~0ull, ~0u, ~0u, 0x7ffffffff, 0xcd81, true},
                            {42, 1, 1000, (1ull << 35) + 123, 0x034d, false}};
  for (const Answer& a : answers) {
    const DropoutMask mask = dropout_mask(0.1, a.seed, a.call, a.step);
    CHECK(mask.threshold == 6554);
    CHECK(mask.lane(a.element) == a.lane);
    CHECK(mask.keep(a.element) == a.kept);
  }
}

TEST_CASE("an element is kept exactly from its threshold on") {
  DropoutMask mask = dropout_mask(0.5, seed, 3, 7);
  mask.threshold = 0x9715;
  CHECK(mask.keep(5));
  mask.threshold = 0x9716;
  CHECK_FALSE(mask.keep(5));
}

// Whether each of n elements is kept, drawn in blocks as kernels do.
std::vector<std::uint8_t> drawn(const DropoutMask& mask, std::uint64_t first, std::size_t n) {
  std::vector<std::uint8_t> flags;
  const auto block = std::make_unique<LaneBlock>();
  while (flags.size() < n) {
    const int count =
        static_cast<int>(std::min<std::size_t>(n - flags.size(), LaneBlock::capacity));
    draw_lanes(mask, first + flags.size(), count, *block);
    for (int e = 0; e < count; ++e) {
      flags.push_back(block->lane[e] >= block->threshold ? 1 : 0);
    }
  }
  return flags;
}

void check_block(const DropoutMask& mask, std::uint64_t first, std::size_t n) {
  const auto flags = drawn(mask, first, n);
  for (std::size_t e = 0; e < n; ++e) {
    INFO("element ", e, " of ", n, " from ", first);
    REQUIRE((flags[e] != 0) == mask.keep(first + e));
  }
}

TEST_CASE("lanes drawn in blocks decide as keep does") {
  const std::uint64_t firsts[] = {0,
                                  1,
                                  7,
                                  8,
                                  12345,
                                  (1ull << 32) - 9,
                                  (1ull << 32) + 3,
                                  (1ull << 35) - 20,
                                  (1ull << 35) + 5,
                                  (1ull << 62) + 1};
  for (const MaskScheme scheme : {MaskScheme::lanes, MaskScheme::triton}) {
    const DropoutMask mask = dropout_mask(0.3, seed, 3, 7, scheme);
    for (const std::uint64_t first : firsts) {
      for (std::size_t n = 0; n <= 67; ++n) check_block(mask, first, n);
      for (const std::size_t n : {511, 512, 513, 1016, 1017, 1023, 1024, 1025, 5000}) {
        check_block(mask, first, n);
      }
    }
    for (const double p : {0.0, 1.0, 1e-9, 1e-5, 0.99999, 1 - 1e-9}) {
      check_block(dropout_mask(p, seed, 0, 0, scheme), 3, 700);
    }
  }
}

TEST_CASE("the ends of p, lanes") {
  const double half_lane = 0x1p-17;
  for (const double p : {0.0, 1e-12, std::nextafter(half_lane, 0.0)}) {
    const DropoutMask mask = dropout_mask(p, seed, 0, 0);
    CHECK(mask.is_identity());
    CHECK_FALSE(mask.drops_everything());
    CHECK(mask.scale() == 1);
  }
  CHECK(dropout_mask(half_lane, seed, 0, 0).threshold == 1);
  for (const double p : {1.0, 1 - 1e-12, 1 - half_lane}) {
    const DropoutMask mask = dropout_mask(p, seed, 0, 0);
    CHECK(mask.drops_everything());
    CHECK_FALSE(mask.is_identity());
    CHECK(mask.scale() == 0);
    CHECK_FALSE(mask.keep(0));
  }
  CHECK(dropout_mask(1 - 2 * half_lane, seed, 0, 0).threshold == 65535);
  CHECK(dropout_mask(1 - 2 * half_lane, seed, 0, 0).scale() == 65536);
}

TEST_CASE("the ends of p, triton") {
  const auto mask = [](double p) { return dropout_mask(p, seed, 0, 0, MaskScheme::triton); };
  CHECK(mask(0).is_identity());
  CHECK_FALSE(mask(1e-9).is_identity());
  CHECK(mask(1).drops_everything());
  CHECK(mask(1 - 1e-12).drops_everything());
  CHECK(mask(1 - 1e-12).scale() == 0);
  CHECK(mask(0.1).scale() == 1 / (1 - 0.1));
}

TEST_CASE("the scale makes the expectation exact for the probability used") {
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    const DropoutMask mask = dropout_mask(p, seed, 0, 0);
    CHECK(mask.scale() == 65536.0 / (65536 - std::round(p * 65536)));
  }
}

TEST_CASE("a million elements keep their share, whatever the step and call") {
  const std::size_t n = 1000000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const DropoutMask mask = dropout_mask(p, seed, 2, 9);
    const auto flags = drawn(mask, 0, n);
    double kept = 0;
    for (const std::uint8_t flag : flags) kept += flag;
    const double q = 1 - mask.threshold / 65536.0;
    CHECK(std::abs(kept / n - q) < 4 * std::sqrt(p * (1 - p) / n));
    for (const auto& [call, step] : {std::pair{3u, 9u}, {2u, 10u}}) {
      const auto others = drawn(dropout_mask(p, seed, call, step), 0, n);
      double equal = 0;
      for (std::size_t e = 0; e < n; ++e) equal += flags[e] == others[e];
      CHECK(equal / n == doctest::Approx(q * q + (1 - q) * (1 - q)).epsilon(0.01));
    }
  }
}

struct TritonAnswer {
  std::uint64_t seed;
  std::uint32_t words[8];
  std::uint32_t floats[8];
  std::uint64_t sum;
  std::uint32_t exclusive_or;
  int below[3];  // how many of the first 2^20 uniforms are below 0.1, 0.5, 0.9
};

// Made by Triton 3.6 on a GPU: tl.randint and tl.rand of (seed, offset).
constexpr TritonAnswer triton_answers[] = {{0,
                                            {0x6627e8d5, 0xf8e4cca4, 0x04faa329, 0xc990ef29,
                                             0xef3dc354, 0x734893fb, 0xb6af4bf8, 0xa8b31d31},
                                            {0x3f4c4fd1, 0x3d63666a, 0x3d1f5464, 0x3ed9bc42,
                                             0x3e0611e4, 0x3f669127, 0x3f12a167, 0x3f2e99c5},
                                            0x0007fe70f6eadc09,
                                            0xe1476605,
                                            {105037, 524071, 943747}},
                                           {1,
                                            {0xe3e80670, 0xac08141b, 0x3f55b3f0, 0xc1f3cfa1,
                                             0x3f6d6908, 0x2907fe46, 0x720505f1, 0x7b0ea8fd},
                                            {0x3e60bfcb, 0x3f27efd7, 0x3efd56cf, 0x3ef830c0,
                                             0x3efdb5a3, 0x3ea41ff8, 0x3f640a0b, 0x3f761d51},
                                            0x000800cdf1ef55ba,
                                            0x4910b922,
                                            {104701, 523887, 943507}},
                                           {123,
                                            {0x11237cdc, 0xa3c0144e, 0x2c1b5aa5, 0x1e66d4d6,
                                             0xc5529cea, 0x64f2adae, 0x05b89ae2, 0x308f4a2f},
                                            {0x3e091be6, 0x3f387fd6, 0x3eb06d6a, 0x3e7336a6,
                                             0x3eeab58b, 0x3f49e55a, 0x3d37135b, 0x3ec23d28},
                                            0x0007ff426a9ff1f7,
                                            0x5eb72d7b,
                                            {104767, 523411, 943719}},
                                           {512,
                                            {0x38c86f57, 0x13f010b0, 0x828c5854, 0x6ffae5e7,
                                             0x23f0e45e, 0x4cc9d1aa, 0x6101202d, 0xc1f2577d},
                                            {0x3ee321bc, 0x3e1f8085, 0x3f7ae74e, 0x3f5ff5cb,
                                             0x3e8fc390, 0x3f1993a2, 0x3f42023f, 0x3ef836a1},
                                            0x0007fd891e830cfa,
                                            0x16d0d51a,
                                            {104806, 524463, 944066}},
                                           {65535,
                                            {0xc8c357f9, 0xc04fff77, 0x839df0a0, 0xe2059326,
                                             0xc41df6f8, 0x34067436, 0x351d73dc, 0x9b0507f4},
                                            {0x3edcf29f, 0x3efec001, 0x3f78c41e, 0x3e6fd366,
                                             0x3eef8823, 0x3ed019d0, 0x3ed475ce, 0x3f49f5ef},
                                            0x0007ff19ba58b558,
                                            0x2f5e8084,
                                            {105200, 523938, 943196}}};

TEST_CASE("triton: tl.rand known answers") {
  const std::uint64_t count = 1 << 20;
  for (const TritonAnswer& answer : triton_answers) {
    INFO("seed ", answer.seed);
    for (std::uint64_t i = 0; i < 8; ++i) {
      CHECK(triton_uniform(answer.words[i]) == std::bit_cast<float>(answer.floats[i]));
      CHECK(triton_uniform(answer.seed, i) == std::bit_cast<float>(answer.floats[i]));
    }
    std::uint64_t sum = 0;
    std::uint32_t exclusive_or = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t word =
          philox4x32({{static_cast<std::uint32_t>(i), 0, 0, 0}}, answer.seed).word[0];
      sum += word;
      exclusive_or ^= word;
    }
    CHECK(sum == answer.sum);
    CHECK(exclusive_or == answer.exclusive_or);
    const double ps[] = {0.1, 0.5, 0.9};
    for (int k = 0; k < 3; ++k) {
      const auto flags =
          drawn(dropout_mask(ps[k], answer.seed, 5, 6, MaskScheme::triton), 0, count);
      int kept = 0;
      for (const std::uint8_t flag : flags) kept += flag;
      CHECK(kept == static_cast<int>(count) - answer.below[k]);
    }
  }
}

static_assert(triton_uniform(0x7fffffffu) < 1 && triton_uniform(0x80000000u) < 1);
static_assert(triton_uniform(0u) == 0 && triton_uniform(0xffffffffu) == 0);

}  // namespace
}  // namespace sinter::math
