#pragma once

// Numbers drawn from Philox: Triton's float32 uniform, and the float64 uniforms and bounded
// integers of initial weights and shuffles, which every device and standard library draws alike.

#include <cstdint>

#include <sinter/kernels/math/hd.h>
#include <sinter/kernels/math/philox.h>

namespace sinter::math {

// What draws from Philox beside dropout. Each has a key of its own, so the same seed never gives
// two purposes the same bits; dropout itself uses the seed unchanged, as domain 0 would. Numbers
// are part of the meaning of a seed: never reuse or renumber one.
enum class Domain : std::uint64_t {
  initial_weights = 1,  // stream: ordinal of the parameter; index: element, normal: two for each
  shuffling = 2,        // stream: epoch; index: position
};

// An odd factor is a bijection, so different domains are different keys under every seed.
SINTER_HD constexpr std::uint64_t domain_key(std::uint64_t seed, Domain domain) {
  return seed ^ static_cast<std::uint64_t>(domain) * 0x9E3779B97F4A7C15u;
}

SINTER_HD constexpr std::uint64_t draw_bits(std::uint64_t seed, Domain domain, std::uint32_t stream,
                                            std::uint64_t index) {
  const PhiloxWords r = philox4x32(
      {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream, 0}},
      domain_key(seed, domain));
  return std::uint64_t{r.word[1]} << 32 | r.word[0];
}

// In [0, 1), a multiple of 2^-53.
SINTER_HD constexpr double uniform_double(std::uint64_t seed, Domain domain, std::uint32_t stream,
                                          std::uint64_t index) {
  return static_cast<double>(draw_bits(seed, domain, stream, index) >> 11) * 0x1p-53;
}

// The upper 64 bits of a product, in 32-bit parts because not every compiler has 128-bit integers.
SINTER_HD constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32;
  const std::uint64_t b0 = b & 0xffffffffu, b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  return a1 * b1 + (middle >> 32) + (((middle & 0xffffffffu) + a0 * b1) >> 32);
}

// In [0, n), n > 0; no value is likelier than another by more than n / 2^64. A Fisher-Yates
// shuffle:
//   for (i = n - 1; i > 0; --i) swap(order[i], order[bounded(seed, Domain::shuffling, epoch, i, i +
//   1)]);
SINTER_HD constexpr std::uint64_t bounded(std::uint64_t seed, Domain domain, std::uint32_t stream,
                                          std::uint64_t index, std::uint64_t n) {
  return multiply_high(draw_bits(seed, domain, stream, index), n);
}

// tl.rand's map from 32 bits to [0, 1): the constant is below 2^-31, which keeps 1 out.
SINTER_HD constexpr float triton_uniform(std::uint32_t word) {
  const std::uint32_t magnitude = word >> 31 ? ~word : word;
  return static_cast<float>(static_cast<std::int32_t>(magnitude)) * 4.6566127342e-10f;
}

// tl.rand(seed, offset).
SINTER_HD constexpr float triton_uniform(std::uint64_t seed, std::uint64_t offset) {
  const PhiloxWords r = philox4x32(
      {{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32), 0, 0}}, seed);
  return triton_uniform(r.word[0]);
}

}  // namespace sinter::math
