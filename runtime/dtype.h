// The element types of a tensor. float16 and bfloat16 are storage only: arithmetic on them is done
// in float32 (docs/design.md, "Numbers").
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

namespace sinter {

enum class DType : std::uint8_t { float64, float32, float16, bfloat16, int64, int32, uint8 };

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// "float32" and so on.
std::string_view name_of(DType dtype);
bool is_floating(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

/// IEEE 754 binary16 as stored bits. Conversion from float rounds to nearest, ties to even, and
/// keeps infinities and NaN.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

/// The upper half of a float32, rounded to nearest, ties to even.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// dtype_of<float> is DType::float32 and so on; a type that no tensor holds does not compile.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(std::is_same_v<T, void>, "no tensor holds elements of this type");
  return DType::float32;
}();
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<float16> = DType::float16;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::uint8;

}  // namespace sinter
