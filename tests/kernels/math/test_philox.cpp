// The known answers that the authors of Philox publish with Random123.

#include <array>
#include <cstdint>

#include <doctest/doctest.h>

#include <sinter/kernels/math/philox.h>

namespace sinter::math {
namespace {

using Words = std::array<std::uint32_t, 4>;

constexpr Words philox(Words c, std::uint64_t key) {
  const PhiloxWords r = philox4x32({{c[0], c[1], c[2], c[3]}}, key);
  return {r.word[0], r.word[1], r.word[2], r.word[3]};
}

TEST_CASE("Philox4x32-10 known answers") {
  CHECK(philox({0, 0, 0, 0}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, 0xffffffffffffffff) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static_assert(philox({0, 0, 0, 0}, 0)[0] == 0x6627e8d5, "usable in constant expressions");

}  // namespace
}  // namespace sinter::math
