// Tensors that share elements, and the versions that tell of writes to them.

#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/pool.h>
#include <sinter/runtime/tensor.h>

namespace sinter {
namespace {

Tensor counted(const Shape& shape) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    values.push_back(static_cast<float>(i));
  }
  return Tensor::from(values, shape);
}

// How many versions `write` raises the tensor's by.
template <class Write>
std::uint64_t raised(const Tensor& tensor, Write write) {
  const std::uint64_t before = tensor.version();
  write();
  return tensor.version() - before;
}

TEST_CASE("copies of a handle and reshaped ones share elements and version") {
  Tensor a = counted({2, 3});
  Tensor b = a;
  Tensor c = a.reshape({3, 2});
  CHECK(c.shape() == Shape{3, 2});
  CHECK(c.address() == a.address());
  CHECK(raised(a, [&] { c.fill(5); }) == 1);
  CHECK(b.to_vector<float>() == std::vector<float>(6, 5.0f));
  CHECK(b.version() == a.version());
  CHECK(raised(c, [&] { b.fill(6); }) == 1);
}

TEST_CASE("reshape fills in a size of -1") {
  const Tensor t = counted({2, 3, 4});
  CHECK(t.reshape({-1}).shape() == Shape{24});
  CHECK(t.reshape({-1, 4}).shape() == Shape{6, 4});
  CHECK(t.reshape({4, -1, 2}).shape() == Shape{4, 3, 2});
  CHECK(t.reshape({24, -1}).shape() == Shape{24, 1});
  CHECK(t.reshape({6, 4}).shape() == Shape{6, 4});
  CHECK(t.reshape(Shape{1, 24, 1}).shape() == Shape{1, 24, 1});
  CHECK(counted({1}).reshape({}).shape() == Shape{});
  CHECK(t.reshape({6, -1}).to_vector<float>() == t.to_vector<float>());
}

TEST_CASE("reshape refuses another number of elements") {
  const Tensor t = counted({2, 3, 4});
  check_refused([&] { t.reshape({5, 5}); }, {"[2, 3, 4]", "24", "[5, 5]", "25"});
  check_refused([&] { t.reshape(Shape{}); }, {"24"});
  check_refused([&] { t.reshape({5, -1}); }, {"24", "5"});
  check_refused([&] { t.reshape({0, -1}); }, {"24"});
  check_refused([&] { t.reshape({-1, -1}); }, {"only one size may be -1"});
  check_refused([&] { t.reshape({-2, 12}); }, {"negative"});
  check_refused([&] { t.reshape({-1, 70000, 70000, 70000, 70000}); }, {"64-bit"});
}

TEST_CASE("rows are a view: same elements, same version") {
  Tensor t = counted({5, 2, 2});
  Tensor rows = t.view_rows(1, 3);
  CHECK(rows.shape() == Shape{2, 2, 2});
  CHECK(rows.to_vector<float>() == std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(raised(t, [&] { rows.fill(-1); }) == 1);
  CHECK(t.to_vector<float>() == std::vector<float>{0,  1,  2,  3,  -1, -1, -1, -1, -1, -1,
                                                   -1, -1, 12, 13, 14, 15, 16, 17, 18, 19});
  CHECK(raised(rows, [&] { t.fill(0); }) == 1);
  // Of a view, and of bytes that are not four to an element.
  CHECK(counted({6}).view_rows(2, 6).view_rows(1, 3).to_vector<float>() ==
        std::vector<float>{3, 4});
  const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}, {3, 2});
  CHECK(bytes.view_rows(1, 2).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{3, 4});
  Tensor on_fake = counted({4}).to(Device::fake());
  on_fake.view_rows(1, 3).fill(9);
  CHECK(on_fake.to_vector<float>() == std::vector<float>{0, 9, 9, 3});
}

TEST_CASE("rows have bounds") {
  const Tensor t = counted({5, 2});
  CHECK(t.view_rows(0, 5).numel() == 10);
  CHECK(t.view_rows(0, 0).shape() == Shape{0, 2});
  CHECK(t.view_rows(5, 5).shape() == Shape{0, 2});
  check_refused([&] { t.view_rows(0, 6); }, {"[0, 6)", "5", "[5, 2]"});
  check_refused([&] { t.view_rows(-1, 2); }, {"[-1, 2)"});
  check_refused([&] { t.view_rows(3, 2); }, {"[3, 2)"});
  check_refused([&] { t.view_rows(6, 6); }, {"[6, 6)"});
  check_refused([] { Tensor::zeros({}).view_rows(0, 1); }, {"scalar"});
}

TEST_CASE("a recorded value is not cut or copied behind the tape's back") {
  Tensor recorded = counted({2, 2});
  recorded.set_slot({.tape = 7, .index = 0});
  Tensor leaf = counted({2, 2});
  leaf.set_requires_grad();
  for (const Tensor& t : {recorded, leaf}) {
    check_refused([&] { t.view_rows(0, 1); }, {"autograd", "detach()"});
    check_refused([&] { t.to(Device::fake()); }, {"autograd", "detach()"});
    check_refused([&] { t.to(DType::float64); }, {"autograd", "detach()"});
    check_refused([&] { t.clone(); }, {"autograd", "detach()"});
    CHECK(t.to(Device::cpu()).address() == t.address());
    CHECK(t.to(DType::float32).address() == t.address());
    CHECK(t.detach().view_rows(0, 1).numel() == 2);
    CHECK(t.detach().slot().tape == 0);
    CHECK(t.detach().clone().slot().tape == 0);
  }
  Tensor target = counted({2, 2});
  check_refused([&] { target.copy_from(recorded); }, {"recorded", "detach()"});
  CHECK_NOTHROW(target.copy_from(recorded.detach()));
  CHECK(recorded.reshape({4}).slot().tape == 7);
}

TEST_CASE("every write raises the version, nothing else does") {
  Tensor t = counted({2, 2});
  const std::vector<float> values(4);
  CHECK(raised(t, [&] { t.fill(1); }) == 1);
  CHECK(raised(t, [&] { t.copy_from(std::span<const float>(values)); }) == 1);
  CHECK(raised(t, [&] { t.copy_from(counted({2, 2})); }) == 1);
  CHECK(raised(t, [&] { t.copy_from(counted({2, 2}).to(Device::fake())); }) == 1);
  CHECK(raised(t, [&] { t.bump_version(); }) == 1);
  Tensor other = t.clone();
  CHECK(raised(t, [&] {
          other.fill(1);
          other.copy_from(t);
          t.to_vector<float>();
          t.to(Device::fake());
          t.to(DType::float64);
          t.detach();
          t.reshape({4});
          t.view_rows(0, 1).reshape({-1}).view_rows(1, 2).item();
          t.data<float>();
          text(t);
        }) == 0);
}

TEST_CASE("slices of a flat buffer have versions of their own") {
  Tensor flat = Tensor::zeros({100});
  Tensor a = flat.slice(0, {3, 4});
  Tensor b = flat.slice(64, {5});
  Tensor c = flat.slice(64, {5});  // the same elements, taken again
  CHECK(a.shape() == Shape{3, 4});
  CHECK(b.address() == flat.address() + 64 * sizeof(float));
  CHECK(raised(b, [&] { a.fill(1); }) == 0);
  CHECK(raised(a, [&] { a.fill(1); }) == 1);
  CHECK(raised(c, [&] { b.fill(2); }) == 0);
  CHECK(raised(a, [&] { flat.bump_version(); }) == 1);
  CHECK(raised(b, [&] { flat.view_rows(0, 1).fill(0); }) == 1);
  Tensor view = b.view_rows(1, 3);
  CHECK(raised(b, [&] { view.fill(7); }) == 1);
  const std::vector<float> values = flat.to_vector<float>();
  CHECK(values[11] == 1);
  CHECK(values[12] == 0);
  CHECK(values[63] == 0);
  CHECK(values[64] == 2);
  CHECK(values[65] == 7);
  CHECK(values[67] == 2);
  CHECK(values[69] == 0);
}

TEST_CASE("slices of slices: a write to either whole counts") {
  Tensor flat = counted({20});
  Tensor half = flat.slice(10, {10});
  Tensor part = half.slice(2, {2, 2});
  CHECK(part.to_vector<float>() == std::vector<float>{12, 13, 14, 15});
  CHECK(raised(part, [&] { half.bump_version(); }) == 1);
  CHECK(raised(part, [&] { flat.bump_version(); }) == 1);
  CHECK(raised(half, [&] { part.fill(0); }) == 0);
  CHECK(counted({20}).view_rows(5, 15).slice(1, {2}).to_vector<float>() ==
        std::vector<float>{6, 7});
}

TEST_CASE("a slice keeps the buffer alive, once") {
  const Device fake = Device::fake();
  const std::size_t before = pool_stats(fake).in_use;
  {
    Tensor part;
    {
      Tensor flat = Tensor::full({1000}, 4, DType::float32, fake);
      part = flat.slice(500, {2});
    }
    CHECK(pool_stats(fake).in_use > before);
    CHECK(part.to_vector<float>() == std::vector<float>{4, 4});
  }
  CHECK(pool_stats(fake).in_use == before);
}

}  // namespace
}  // namespace sinter
