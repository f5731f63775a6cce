#pragma once

// Philox4x32-10: 128 random bits as a pure function of a 128-bit counter and a 64-bit key. No
// state, so any thread of any device can compute any element's bits. Salmon et al., "Parallel
// Random Numbers: As Easy as 1, 2, 3", 2011.

#include <cstdint>

#include <sinter/kernels/math/hd.h>

namespace sinter::math {

struct PhiloxWords {
  std::uint32_t word[4];
};

struct PhiloxKey {
  std::uint32_t low;
  std::uint32_t high;
};

SINTER_HD constexpr PhiloxKey philox_key(std::uint64_t key) {
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

SINTER_HD constexpr PhiloxWords philox_round(const PhiloxWords& c, PhiloxKey key) {
  const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.word[0];
  const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.word[2];
  return {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ key.low,
           static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ key.high,
           static_cast<std::uint32_t>(p0)}};
}

SINTER_HD constexpr PhiloxKey philox_next_key(PhiloxKey key) {
  return {key.low + 0x9E3779B9u, key.high + 0xBB67AE85u};
}

SINTER_HD constexpr PhiloxWords philox4x32(PhiloxWords counter, std::uint64_t key) {
  PhiloxKey k = philox_key(key);
  for (int round = 0; round < 9; ++round) {
    counter = philox_round(counter, k);
    k = philox_next_key(k);
  }
  return philox_round(counter, k);
}

}  // namespace sinter::math
