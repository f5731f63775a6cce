// Tensors between devices and element types, and tensors of no elements.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/backend.h>
#include <sinter/runtime/tensor.h>

namespace sinter {
namespace {

constexpr DType all_types[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                               DType::int64,   DType::int32,   DType::uint8};

TEST_CASE("to(device) copies once each way, and not at all where the tensor is already") {
  const Tensor here = Tensor::from({1.0f, 2.0f, 3.0f}, {3});
  reset_fake_device_counts();
  const Tensor there = here.to(Device::fake());
  CHECK(there.device() == Device::fake());
  CHECK(fake_device_counts().copies_from_host == 1);
  CHECK(fake_device_counts().copies_to_host == 0);
  CHECK(fake_device_counts().bytes_copied == 12);
  const Tensor same = there.to(Device::fake());
  CHECK(same.storage() == there.storage());
  const Tensor back = there.to(Device::cpu());
  CHECK(fake_device_counts().copies_from_host == 1);
  CHECK(fake_device_counts().copies_to_host == 1);
  CHECK(fake_device_counts().bytes_copied == 24);
  CHECK(back.to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(back.address() != here.address());
  CHECK(here.to(Device::cpu()).storage() == here.storage());
  CHECK(here.to(Device::cpu()).version() == here.version());
}

TEST_CASE("a clone has elements of its own and stays on its device") {
  Tensor there = Tensor::full({3}, 1, DType::float32, Device::fake());
  reset_fake_device_counts();
  const Tensor copy = there.clone();
  CHECK(copy.device() == Device::fake());
  CHECK(fake_device_counts().bytes_copied == 0);
  there.fill(2);
  CHECK(copy.to_vector<float>() == std::vector<float>{1, 1, 1});
  const Tensor rows = Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2}).view_rows(1, 2).clone();
  CHECK(rows.to_vector<double>() == std::vector<double>{3, 4});
  CHECK(rows.storage()->bytes() == 16);
}

TEST_CASE("copy_from takes elements across devices") {
  const std::vector<float> values{5, 6, 7, 8};
  for (const Device from : {Device::cpu(), Device::fake()}) {
    for (const Device to : {Device::cpu(), Device::fake()}) {
      CAPTURE(from);
      CAPTURE(to);
      const Tensor source = Tensor::from(values, {2, 2}, from);
      Tensor target = Tensor::zeros({2, 2}, DType::float32, to);
      reset_fake_device_counts();
      target.copy_from(source);
      const FakeDeviceCounts counts = fake_device_counts();
      CHECK(counts.copies_from_host == (from == Device::cpu() && to == Device::fake()));
      CHECK(counts.copies_to_host == (from == Device::fake() && to == Device::cpu()));
      CHECK(target.to_vector<float>() == values);
      CHECK(target.device() == to);
    }
  }
}

TEST_CASE("copy_from refuses another shape or type, and leaves the target alone") {
  Tensor target = Tensor::full({2, 3}, 1);
  const std::uint64_t version = target.version();
  check_refused([&] { target.copy_from(Tensor::zeros({3, 2})); }, {"[2, 3]", "[3, 2]"});
  check_refused(
      [&] {
        target.copy_from(Tensor::zeros({2, 3}, DType::float64));
      },
      {"float32", "float64"});
  CHECK(target.to_vector<float>() == std::vector<float>(6, 1.0f));
  CHECK(target.version() == version);
}

TEST_CASE("overlapping rows can be copied onto one another") {
  Tensor t = Tensor::from({0.0f, 1.0f, 2.0f, 3.0f, 4.0f}, {5});
  t.view_rows(1, 5).copy_from(t.view_rows(0, 4));
  CHECK(t.to_vector<float>() == std::vector<float>{0, 0, 1, 2, 3});
}

TEST_CASE("to(dtype) converts every type to every other") {
  for (const DType from : all_types) {
    for (const DType to : all_types) {
      for (const Device device : {Device::cpu(), Device::fake()}) {
        CAPTURE(from);
        CAPTURE(to);
        const Tensor source = Tensor::full({2, 3}, 65, from, device);
        const Tensor converted = source.to(to);
        CHECK(converted.dtype() == to);
        CHECK(converted.device() == device);
        CHECK(converted.shape() == Shape{2, 3});
        CHECK(converted.view_rows(1, 2).to(DType::float64).to_vector<double>() ==
              std::vector<double>{65, 65, 65});
        CHECK((converted.storage() == source.storage()) == (from == to));
      }
    }
  }
}

TEST_CASE("to(dtype) rounds to floating types and truncates to integers") {
  const Tensor x = Tensor::from({0.1, -2.9, 2.9, 3000000001.0}, {4});
  CHECK(x.to(DType::float32).to_vector<float>() ==
        std::vector<float>{0.1f, -2.9f, 2.9f, 3000000001.0f});
  CHECK(x.to(DType::int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, -2, 2, 3000000001});
  const Tensor half = Tensor::from({0.1f, 65519.0f, 65520.0f, -1e-8f}, {4}).to(DType::float16);
  CHECK(half.to(DType::float32).to_vector<float>() ==
        std::vector<float>{0.0999755859375f, 65504.0f, std::numeric_limits<float>::infinity(),
                           -0.0f});
  // 2^24 + 1 lies halfway between two float32: to the even one.
  const Tensor integers = Tensor::from({std::int64_t{16777217}, std::int64_t{-16777219}}, {2});
  CHECK(integers.to(DType::float32).to_vector<float>() ==
        std::vector<float>{16777216.0f, -16777220.0f});
  CHECK(integers.to(DType::float64).to_vector<double>() ==
        std::vector<double>{16777217.0, -16777219.0});
  CHECK(std::isnan(Tensor::from({std::nan("")}, {}).to(DType::bfloat16).item()));
}

TEST_CASE("to(dtype) holds at the ends of an integer type's range, and makes NaN 0") {
  const double big = 1e300;
  const Tensor x = Tensor::from({-big, -1.0, 255.9, 256.0, big, std::nan("")}, {6});
  CHECK(x.to(DType::uint8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{0, 0, 255, 255, 255, 0});
  using Limits32 = std::numeric_limits<std::int32_t>;
  CHECK(x.to(DType::int32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{Limits32::min(), -1, 255, 256, Limits32::max(), 0});
  using Limits64 = std::numeric_limits<std::int64_t>;
  CHECK(x.to(DType::int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{Limits64::min(), -1, 255, 256, Limits64::max(), 0});
  CHECK(Tensor::from({float16(70000.0f), float16(-2.5f)}, {2})
            .to(DType::int32)
            .to_vector<std::int32_t>() == std::vector<std::int32_t>{Limits32::max(), -2});
  const Tensor integers =
      Tensor::from({std::int64_t{-1}, std::int64_t{300}, std::int64_t{1} << 40}, {3});
  CHECK(integers.to(DType::uint8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{0, 255, 255});
  CHECK(integers.to(DType::int32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{-1, 300, Limits32::max()});
}

TEST_CASE("a conversion on another device copies out and in") {
  const Tensor there = Tensor::full({4}, 1.5, DType::float32, Device::fake());
  reset_fake_device_counts();
  const Tensor converted = there.to(DType::float16);
  CHECK(fake_device_counts().copies_to_host == 1);
  CHECK(fake_device_counts().copies_from_host == 1);
  CHECK(fake_device_counts().bytes_copied == 16 + 8);
  CHECK(converted.view_rows(3, 4).item() == 1.5);
}

TEST_CASE("a tensor of no elements goes everywhere that others go") {
  for (const Shape& shape : {Shape{0}, Shape{0, 5}, Shape{3, 0}, Shape{2, 0, 4}}) {
    for (const DType dtype : all_types) {
      for (const Device device : {Device::cpu(), Device::fake()}) {
        CAPTURE(shape);
        CAPTURE(dtype);
        CAPTURE(device);
        Tensor t = Tensor::zeros(shape, dtype, device);
        CHECK(t.defined());
        CHECK(t.numel() == 0);
        CHECK(t.bytes() == 0);
        CHECK(t.device() == device);
        t.fill(3);
        t.copy_from(Tensor::empty(shape, dtype));
        t.copy_from(t.clone());
        CHECK(t.to(Device::fake()).to(Device::cpu()).shape() == shape);
        CHECK(t.to(DType::float64).to_vector<double>().empty());
        CHECK(t.to(DType::bfloat16).shape() == shape);
        CHECK(t.reshape({0, 7}).shape() == Shape{0, 7});
        CHECK(t.reshape({7, -1}).shape() == Shape{7, 0});
        CHECK(t.view_rows(0, 0).numel() == 0);
        CHECK(t.view_rows(0, shape[0]).shape() == shape);
        CHECK(t.reshape({0}).slice(0, {0}).numel() == 0);
        check_refused([&] { t.item(); }, {"exactly one"});
      }
    }
  }
  Tensor t = Tensor::from(std::vector<float>{}, {0, 3});
  t.copy_from(std::span<const float>{});
  t.copy_to(std::span<float>{});
  CHECK(t.values<float>().empty());
  CHECK(Tensor::from(std::vector<float>{}, {0}, Device::fake()).to_vector<float>().empty());
}

TEST_CASE("a tensor on a device that is not there is an error") {
  check_refused([] { Tensor::zeros({2}, DType::float32, Device::cuda(4096)); }, {"cuda:4096"});
  check_refused([] { Tensor::zeros({0}, DType::float32, Device::cuda(4096)); }, {"cuda:4096"});
  check_refused([] { Tensor::zeros({2}).to(Device::cuda(4096)); }, {"cuda:4096"});
}

}  // namespace
}  // namespace sinter
