// The 16-bit types against an exact reference: a sorted table of their values, in which the nearest
// is looked up by comparing with midpoints that float64 holds exactly.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/runtime/dtype.h>
#include <sinter/runtime/text.h>

namespace sinter {
namespace {

struct Half {
  using type = float16;
  static constexpr int exponent_bits = 5;
  static constexpr int fraction_bits = 10;
};
struct Brain {
  using type = bfloat16;
  static constexpr int exponent_bits = 8;
  static constexpr int fraction_bits = 7;
};

// What the bits stand for by IEEE 754's definition; NaN and infinity by the caller.
template <class Format>
double value_of(std::uint32_t magnitude) {
  const int bias = (1 << (Format::exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(magnitude >> Format::fraction_bits);
  const std::uint32_t fraction = magnitude & ((1u << Format::fraction_bits) - 1);
  if (exponent == 0) {
    return std::ldexp(fraction, 1 - bias - Format::fraction_bits);
  }
  return std::ldexp(fraction + (1u << Format::fraction_bits),
                    exponent - bias - Format::fraction_bits);
}

template <class Format>
constexpr std::uint32_t infinity_bits = ((1u << Format::exponent_bits) - 1)
                                        << Format::fraction_bits;

// All magnitudes in order. The place of infinity holds the power of two that would come next: what
// is nearer to that than to the largest number overflows.
template <class Format>
const std::vector<double>& table() {
  static const std::vector<double> values = [] {
    std::vector<double> made;
    for (std::uint32_t bits = 0; bits <= infinity_bits<Format>; ++bits) {
      made.push_back(value_of<Format>(bits));
    }
    return made;
  }();
  return values;
}

template <class Format>
std::uint32_t nearest(float value) {
  const std::vector<double>& values = table<Format>();
  const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  const double magnitude = std::abs(double{value});
  const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
  if (above == values.end()) {
    return sign | infinity_bits<Format>;
  }
  const auto high = static_cast<std::uint32_t>(above - values.begin());
  const double middle = (values[high - 1] + values[high]) / 2;
  if (magnitude == middle) {
    return sign | (high % 2 == 0 ? high : high - 1);
  }
  return sign | (magnitude < middle ? high - 1 : high);
}

template <class Format>
std::uint32_t converted(float value) {
  return typename Format::type(value).bits;
}

// A generator with all of float32's bit patterns equally likely.
std::uint32_t next(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<std::uint32_t>(state >> 32);
}

TEST_CASE_TEMPLATE("all 65,536 patterns of a 16-bit type come back from float32", F, Half, Brain) {
  int wrong_value = 0;
  int wrong_bits = 0;
  int wrong_nan = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    typename F::type stored;
    stored.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(stored);
    const std::uint32_t magnitude = bits & 0x7fffu;
    const std::uint32_t back = converted<F>(value);
    if (magnitude > infinity_bits<F>) {
      // A signalling NaN comes back quiet; sign and payload stay.
      const std::uint32_t quiet = 1u << (F::fraction_bits - 1);
      wrong_nan += !std::isnan(value) || back != (bits | quiet);
      continue;
    }
    const double exact = magnitude == infinity_bits<F> ? std::numeric_limits<double>::infinity()
                                                       : value_of<F>(magnitude);
    wrong_value += double{value} != (bits & 0x8000u ? -exact : exact) ||
                   std::signbit(value) != ((bits & 0x8000u) != 0);
    wrong_bits += back != bits;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_bits == 0);
  CHECK(wrong_nan == 0);
}

TEST_CASE_TEMPLATE("halfway between neighbours goes to the even one, beside it to the nearer", F,
                   Half, Brain) {
  const std::vector<double>& values = table<F>();
  int wrong = 0;
  for (std::uint32_t low = 0; low < infinity_bits<F>; ++low) {
    const auto middle = static_cast<float>((values[low] + values[low + 1]) / 2);
    REQUIRE(double{middle} == (values[low] + values[low + 1]) / 2);
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const float s = sign == 0 ? 1.0f : -1.0f;
      wrong += converted<F>(s * middle) != (sign | (low % 2 == 0 ? low : low + 1));
      wrong += converted<F>(s * below) != (sign | low);
      wrong += converted<F>(s * above) != (sign | (low + 1));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("float32 rounds to the nearest value of a 16-bit type", F, Half, Brain) {
  std::uint64_t state = 20;
  int wrong = 0;
  int seen = 0;
  std::string first;
  const auto compare = [&](float value) {
    if (std::isnan(value)) {
      return;
    }
    ++seen;
    if (converted<F>(value) != nearest<F>(value) && ++wrong == 1) {
      first = text(value, " became ", converted<F>(value), ", not ", nearest<F>(value));
    }
  };
  for (int i = 0; i < 1'000'000; ++i) {
    compare(std::bit_cast<float>(next(state)));  // of every size
    // Of the sizes that a float16 holds, its subnormals and just beyond its ends included.
    const int exponent = static_cast<int>(next(state) % 46) - 28;
    compare(std::ldexp(1.0f + static_cast<float>(next(state) >> 9) * 0x1p-23f, exponent));
    compare(std::bit_cast<float>(next(state) & 0x807fffffu));  // subnormal in float32
  }
  CHECK(first == "");
  CHECK(wrong == 0);
  CHECK(seen > 2'900'000);
}

TEST_CASE("the ends of float16 and bfloat16") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(float16(65504.0f).bits == 0x7bff);
  CHECK(float16(65519.996f).bits == 0x7bff);
  CHECK(float16(65520.0f).bits == 0x7c00);  // halfway to 2^16
  CHECK(float16(-1e30f).bits == 0xfc00);
  CHECK(float16(inf).bits == 0x7c00);
  CHECK(float16(0x1p-24f).bits == 1);
  CHECK(float16(0x1p-25f).bits == 0);  // halfway to zero: even
  CHECK(float16(std::nextafter(0x1p-25f, 1.0f)).bits == 1);
  CHECK(float16(-0.0f).bits == 0x8000);
  CHECK(float16(1e-30f).bits == 0);
  CHECK(float16(0x1.ffcp-15f).bits == 0x3ff + 1);  // rounds up from subnormal to normal
  CHECK(bfloat16(inf).bits == 0x7f80);
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bfloat16(-0.0f).bits == 0x8000);
  CHECK(bfloat16(0x1p-133f).bits == 1);
  CHECK(bfloat16(0x1p-134f).bits == 0);
}

TEST_CASE("every NaN of float32 stays a NaN with its sign") {
  std::uint64_t state = 3;
  int wrong = 0;
  const auto look = [&wrong](std::uint32_t payload) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const auto value = std::bit_cast<float>(sign | 0x7f800000u | payload);
      const std::uint32_t half = float16(value).bits;
      const std::uint32_t brain = bfloat16(value).bits;
      wrong += (half & 0x7fffu) <= 0x7c00u || (half >> 15) != (sign >> 31);
      wrong += (brain & 0x7fffu) <= 0x7f80u || (brain >> 15) != (sign >> 31);
    }
  };
  // Payloads of low bits alone vanish when bits are cut off, and would leave an infinity.
  for (int bit = 0; bit < 23; ++bit) {
    look(1u << bit);
  }
  look(0x7fffffu);
  for (int i = 0; i < 10000; ++i) {
    look((next(state) & 0x7fffffu) | 1u);
  }
  CHECK(wrong == 0);
}

TEST_CASE("sizes and names of the element types") {
  struct Row {
    DType dtype;
    std::size_t size;
    std::string name;
    bool floating;
  };
  for (const Row& row :
       {Row{DType::float64, 8, "float64", true}, Row{DType::float32, 4, "float32", true},
        Row{DType::float16, 2, "float16", true}, Row{DType::bfloat16, 2, "bfloat16", true},
        Row{DType::int64, 8, "int64", false}, Row{DType::int32, 4, "int32", false},
        Row{DType::uint8, 1, "uint8", false}}) {
    CAPTURE(row.name);
    CHECK(size_of(row.dtype) == row.size);
    CHECK(name_of(row.dtype) == row.name);
    CHECK(text(row.dtype) == row.name);
    CHECK(is_floating(row.dtype) == row.floating);
  }
  CHECK(dtype_of<double> == DType::float64);
  CHECK(dtype_of<float> == DType::float32);
  CHECK(dtype_of<float16> == DType::float16);
  CHECK(dtype_of<bfloat16> == DType::bfloat16);
  CHECK(dtype_of<std::int64_t> == DType::int64);
  CHECK(dtype_of<std::int32_t> == DType::int32);
  CHECK(dtype_of<std::uint8_t> == DType::uint8);
}

}  // namespace
}  // namespace sinter
