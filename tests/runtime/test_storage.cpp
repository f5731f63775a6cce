#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/backend.h>
#include <sinter/runtime/pool.h>
#include <sinter/runtime/storage.h>

namespace sinter {
namespace {

TEST_CASE("a storage is a block of the device's pool for as long as it lives") {
  for (const Device device : {Device::cpu(), Device::fake()}) {
    const std::size_t before = pool_stats(device).in_use;
    {
      const Storage storage(device, 1000);
      CHECK(storage.device() == device);
      CHECK(storage.bytes() == 1000);
      CHECK(storage.data() != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(storage.data()) % 256 == 0);
      CHECK(storage.whole() == nullptr);
      CHECK(storage.version() == 0);
      CHECK(pool_stats(device).in_use >= before + 1000);
    }
    CHECK(pool_stats(device).in_use == before);
  }
}

TEST_CASE("a storage of no bytes asks for none") {
  const std::uint64_t before = pool_stats(Device::fake()).requests;
  const auto nothing = std::make_shared<Storage>(Device::fake(), 0);
  CHECK(nothing->data() == nullptr);
  CHECK(nothing->bytes() == 0);
  const Storage part(nothing, 0, 0);
  CHECK(part.bytes() == 0);
  CHECK(pool_stats(Device::fake()).requests == before);
}

TEST_CASE("a storage on a device that is not there is an error, of no bytes too") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{16}}) {
    check_refused([bytes] { Storage(Device::cuda(4096), bytes); }, {"cuda:4096"});
    check_refused([bytes] { Storage(Device{DeviceType::cpu, -1}, bytes); }, {"cpu"});
  }
}

TEST_CASE("slices: where they lie, and whose writes they count") {
  const auto whole = std::make_shared<Storage>(Device::cpu(), 100);
  const auto left = std::make_shared<Storage>(whole, 0, 40);
  const auto right = std::make_shared<Storage>(whole, 40, 60);
  const auto inner = std::make_shared<Storage>(right, 8, 16);
  CHECK(right->data() == whole->data() + 40);
  CHECK(inner->data() == whole->data() + 48);
  CHECK(right->bytes() == 60);
  CHECK(right->device() == Device::cpu());
  CHECK(inner->whole() == right);
  right->bump_version();
  CHECK(right->version() == 1);
  CHECK(inner->version() == 1);
  CHECK(left->version() == 0);
  inner->bump_version();
  CHECK(inner->version() == 2);
  CHECK(right->version() == 1);
  whole->bump_version();
  CHECK(left->version() == 1);
  CHECK(right->version() == 2);
  CHECK(inner->version() == 3);
}

TEST_CASE("a slice keeps its whole alive and gives nothing back itself") {
  const Device fake = Device::fake();
  const std::size_t before = pool_stats(fake).in_use;
  auto whole = std::make_shared<Storage>(fake, 5000);
  const std::size_t with_one = pool_stats(fake).in_use;
  auto slice = std::make_shared<Storage>(whole, 1000, 8);
  CHECK(pool_stats(fake).in_use == with_one);
  whole.reset();
  CHECK(pool_stats(fake).in_use == with_one);
  *slice->data() = std::byte{7};
  slice.reset();
  CHECK(pool_stats(fake).in_use == before);
}

}  // namespace
}  // namespace sinter
