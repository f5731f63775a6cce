// Making tensors, and reading and writing their elements.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/tensor.h>

namespace sinter {
namespace {

constexpr DType all_types[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                               DType::int64,   DType::int32,   DType::uint8};

TEST_CASE("a tensor copies the values it is made from") {
  std::vector<float> source{1, 2, 3, 4, 5, 6};
  const Tensor from_vector = Tensor::from(source, {2, 3});
  const Tensor from_span = Tensor::from(std::span<const float>(source).subspan(1, 2), {2});
  source.assign(6, -9);
  CHECK(from_vector.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(from_span.to_vector<float>() == std::vector<float>{2, 3});
  // A temporary is gone before its elements are read.
  const Tensor from_temporary = Tensor::from(std::vector<double>(1000, 0.1), {1000});
  const std::vector<double> overwriting_it(1000, -1.0);
  CHECK(from_temporary.to_vector<double>() == std::vector<double>(1000, 0.1));
  CHECK(Tensor::from({1.5f, 2.5f}, {2}).to_vector<float>() == std::vector<float>{1.5f, 2.5f});
}

TEST_CASE("the element type of the values is the tensor's") {
  CHECK(Tensor::from(std::vector<double>{0.1}, {1}).dtype() == DType::float64);
  CHECK(Tensor::from({0.1f}, {1}).dtype() == DType::float32);
  CHECK(Tensor::from({float16(1.0f)}, {1}).dtype() == DType::float16);
  CHECK(Tensor::from({bfloat16(1.0f)}, {1}).dtype() == DType::bfloat16);
  CHECK(Tensor::from({std::int64_t{1}}, {1}).dtype() == DType::int64);
  CHECK(Tensor::from({std::int32_t{1}}, {1}).dtype() == DType::int32);
  CHECK(Tensor::from({std::uint8_t{1}}, {1}).dtype() == DType::uint8);
}

TEST_CASE("a wrong number of values is refused") {
  for (const int count : {0, 5, 7}) {
    check_refused(
        [count] {
          Tensor::from(std::vector<float>(static_cast<std::size_t>(count)), {2, 3});
        },
        {"[2, 3]", "6 values", text("got ", count)});
  }
  check_refused([] { Tensor::from(std::vector<float>{}, {}); }, {"1 values", "got 0"});
}

TEST_CASE("what a tensor says of itself") {
  const Tensor t = Tensor::zeros({4, 5}, DType::bfloat16);
  CHECK(t.defined());
  CHECK(t.shape() == Shape{4, 5});
  CHECK(t.size(0) == 4);
  CHECK(t.size(-1) == 5);
  CHECK(t.rank() == 2);
  CHECK(t.numel() == 20);
  CHECK(t.bytes() == 40);
  CHECK(t.dtype() == DType::bfloat16);
  CHECK(t.device() == Device::cpu());
  CHECK(Tensor::empty({}).dtype() == DType::float32);
  CHECK(reinterpret_cast<std::uintptr_t>(Tensor::empty({3}).address()) % 256 == 0);
}

TEST_CASE("elements are read as what they are, or not at all") {
  const Tensor doubles = Tensor::from({0.1, 0.2}, {2});
  CHECK(doubles.data<double>()[1] == 0.2);
  check_refused([&] { doubles.data<float>(); }, {"float64", "float32"});
  for (const DType dtype : all_types) {
    Tensor t = Tensor::zeros({2}, dtype);
    const auto refused = [&]<class T>(T) {
      if (dtype_of<T> == dtype) {
        CHECK(t.data<T>() == t.raw<T>());
        CHECK(std::as_const(t).values<T>().size() == 2);
        return;
      }
      check_refused([&] { t.data<T>(); }, {name_of(dtype), name_of(dtype_of<T>)});
      check_refused([&] { std::as_const(t).values<T>(); }, {name_of(dtype)});
      std::vector<T> out(2);
      check_refused([&] { t.copy_to(std::span<T>(out)); }, {name_of(dtype), name_of(dtype_of<T>)});
      check_refused([&] { t.copy_from(std::span<const T>(out)); }, {name_of(dtype)});
    };
    refused(double{});
    refused(float{});
    refused(float16{});
    refused(bfloat16{});
    refused(std::int64_t{});
    refused(std::int32_t{});
    refused(std::uint8_t{});
  }
}

TEST_CASE("elements on another device are not reached through data()") {
  const Tensor t = Tensor::zeros({2}, DType::float32, Device::fake());
  check_refused([&] { t.data<float>(); }, {"fake", "to(Device::cpu())"});
  check_refused([&] { t.values<float>(); }, {"fake"});
  CHECK(t.to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("elements are copied in and out, in their number") {
  for (const Device device : {Device::cpu(), Device::fake()}) {
    Tensor t = Tensor::zeros({2, 2}, DType::int32, device);
    const std::vector<std::int32_t> in{1, -2, 3, std::numeric_limits<std::int32_t>::min()};
    t.copy_from(std::span<const std::int32_t>(in));
    CHECK(t.to_vector<std::int32_t>() == in);
    std::vector<std::int32_t> three(3);
    check_refused([&] { t.copy_to(std::span<std::int32_t>(three)); }, {"4 elements", "3"});
    check_refused([&] { t.copy_from(std::span<const std::int32_t>(three)); }, {"4 elements", "3"});
    CHECK(t.to_vector<std::int32_t>() == in);
  }
}

template <class T>
void check_fill(double value, T wanted) {
  for (const Device device : {Device::cpu(), Device::fake()}) {
    // More elements than any block that a fill might work in, and not a multiple of one.
    Tensor t = Tensor::full({1001}, value, dtype_of<T>, device);
    int wrong = 0;
    for (const T element : t.to_vector<T>()) {
      wrong += std::memcmp(&element, &wanted, sizeof(T)) != 0;
    }
    CAPTURE(dtype_of<T>);
    CHECK(wrong == 0);
    t.fill(0);
    CHECK(t.view_rows(1000, 1001).item() == 0);
  }
}

TEST_CASE("fill converts its value to each element type") {
  check_fill<double>(0.1, 0.1);
  check_fill<float>(0.1, 0.1f);
  check_fill<float16>(0.1, float16(0.1f));
  check_fill<bfloat16>(-3.14159, bfloat16(-3.14159f));
  check_fill<std::int64_t>(-4.0e9, -4'000'000'000);
  check_fill<std::int32_t>(-7, -7);
  check_fill<std::int32_t>(2.9, 2);
  check_fill<std::uint8_t>(255, 255);
  CHECK(std::isnan(Tensor::full({1}, std::nan(""), DType::float16).item()));
  CHECK(Tensor::zeros({3}, DType::float32).to_vector<float>() == std::vector<float>(3, 0.0f));
  // What an integer type cannot hold stops at its ends; NaN is 0.
  check_fill<std::uint8_t>(-1, 0);
  check_fill<std::uint8_t>(256, 255);
  check_fill<std::uint8_t>(std::nan(""), 0);
  check_fill<std::int32_t>(1e10, std::numeric_limits<std::int32_t>::max());
  check_fill<std::int64_t>(-1e300, std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("item is the only element, of any type and device") {
  for (const DType dtype : all_types) {
    CAPTURE(dtype);
    CHECK(Tensor::full({}, 3, dtype).item() == 3);
    CHECK(Tensor::full({1, 1, 1}, 3, dtype, Device::fake()).item() == 3);
  }
  CHECK(Tensor::from({0.1}, {}).item() == 0.1);
  CHECK(Tensor::from({float16(0.1f)}, {}).item() == 0.0999755859375);
  check_refused([] { Tensor::zeros({2, 3}).item(); }, {"exactly one", "[2, 3]"});
  check_refused([] { Tensor::zeros({0}).item(); }, {"exactly one", "[0]"});
}

TEST_CASE("an undefined tensor refuses everything, in words") {
  Tensor gone = Tensor::zeros({2});
  const Tensor taken = std::move(gone);
  CHECK(taken.defined());
  for (const Tensor& t : {Tensor{}, gone}) {  // NOLINT: moved from on purpose
    CHECK_FALSE(t.defined());
    CHECK(t.numel() == 0);
    CHECK(t.bytes() == 0);
    CHECK(t.address() == nullptr);
    CHECK(t.version() == 0);
    CHECK(t.device() == Device::cpu());
    Tensor copy = t;
    copy.bump_version();
    CHECK(text(copy) == "Tensor undefined");
    check_refused([&] { copy.data<float>(); }, {"undefined"});
    check_refused([&] { copy.fill(1); }, {"undefined"});
    check_refused([&] { copy.item(); }, {"undefined"});
    check_refused([&] { copy.to_vector<float>(); }, {"undefined"});
    check_refused([&] { copy.copy_from(std::span<const float>{}); }, {"undefined"});
    check_refused([&] { copy.copy_from(taken); }, {"undefined"});
    check_refused([&] { Tensor::zeros({2}).copy_from(copy); }, {"undefined"});
    check_refused([&] { copy.reshape(Shape{0}); }, {"undefined"});
    check_refused([&] { copy.reshape({-1}); }, {"undefined"});
    check_refused([&] { copy.view_rows(0, 0); }, {"undefined"});
    check_refused([&] { copy.to(Device::cpu()); }, {"undefined"});
    check_refused([&] { copy.to(DType::float64); }, {"undefined"});
    check_refused([&] { copy.clone(); }, {"undefined"});
    check_refused([&] { copy.set_requires_grad(); }, {"undefined"});
  }
}

TEST_CASE(
    "more bytes than there are addresses or memory for is an error, and the next tensor works") {
  check_refused([] { Tensor::empty({std::int64_t{1} << 62}, DType::float64); },
                {"more bytes", "float64"});
  check_refused([] { Tensor::zeros({70000, 70000, 70000}); }, {"out of memory"});
  check_refused([] { Tensor::empty({70000, 70000, 70000, 70000}); }, {"64-bit"});
  CHECK(Tensor::full({3}, 2).to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("a tensor prints what it is and how it begins") {
  CHECK(text(Tensor::from({0.5f, 1.0f, -2.0f}, {3})) == "Tensor [3] float32 cpu {0.5, 1, -2}");
  const std::vector<std::int64_t> nine{1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(text(Tensor::from(nine, {3, 3}, Device::fake())) ==
        "Tensor [3, 3] int64 fake {1, 2, 3, 4, 5, 6, 7, 8, ...}");
  CHECK(text(Tensor::zeros({0, 2}, DType::uint8)) == "Tensor [0, 2] uint8 cpu {}");
}

TEST_CASE("which tensors can be leaves") {
  Tensor t = Tensor::zeros({2});
  CHECK_FALSE(t.requires_grad());
  CHECK(t.set_requires_grad().requires_grad());
  CHECK_FALSE(t.grad().defined());
  CHECK_FALSE(t.detach().requires_grad());
  CHECK_FALSE(t.detach().clone().requires_grad());
  CHECK_FALSE(t.set_requires_grad(false).requires_grad());
  check_refused([] { Tensor::zeros({2}, DType::int64).set_requires_grad(); }, {"int64"});
  Tensor recorded = Tensor::zeros({2});
  recorded.set_slot({.tape = 1, .index = 0});
  check_refused([&] { recorded.set_requires_grad(); }, {"recorded", "detach()"});
}

TEST_CASE("a gradient is shown while it is fresh") {
  Tensor t = Tensor::zeros({2});
  t.set_requires_grad();
  t.leaf()->grad = Tensor::full({2}, 3);
  CHECK_FALSE(t.grad().defined());
  t.leaf()->fresh = true;
  CHECK(t.grad().to_vector<float>() == std::vector<float>{3, 3});
  t.clear_grad();
  CHECK_FALSE(t.grad().defined());
}

}  // namespace
}  // namespace sinter
