#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <string>
#include <sys/sysinfo.h>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "child.h"
#include "sentence.h"
#include <sinter/runtime/backend.h>
#include <sinter/runtime/pool.h>

// Asking for absurdly much must come back as an answer, also under AddressSanitizer, which would
// end the process instead. Without it nobody calls this.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace sinter {
namespace {

const Device fake = Device::fake();

// Memory checkers run the tests with reuse off.
bool reuses() {
  const char* wanted = std::getenv("SINTER_POOL");
  return wanted == nullptr || std::string_view(wanted) != "off";
}

// A block that goes back by itself.
class Block {
 public:
  Block(Device device, std::size_t bytes)
      : device_(device), bytes_(bytes), memory_(pool_allocate(device, bytes)) {}
  Block(Block&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), memory_(std::exchange(other.memory_, {})) {}
  ~Block() {
    if (memory_ != nullptr) {
      pool_release(device_, memory_, bytes_);
    }
  }
  Block& operator=(Block&&) = delete;
  void* memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device device_;
  std::size_t bytes_;
  void* memory_;
};

TEST_CASE("blocks are aligned, large enough, and an eighth too large at most") {
  for (const Device device : {Device::cpu(), fake}) {
    for (std::size_t bytes = 0; bytes < 100000; bytes = bytes < 600 ? bytes + 1 : bytes * 17 / 16) {
      const std::size_t before = pool_stats(device).in_use;
      const Block block(device, bytes);
      const std::size_t taken = pool_stats(device).in_use - before;
      CAPTURE(bytes);
      REQUIRE(block.memory() != nullptr);
      REQUIRE(reinterpret_cast<std::uintptr_t>(block.memory()) % 256 == 0);
      REQUIRE(taken >= bytes);
      REQUIRE(taken <= bytes + bytes / 8 + 256);
      std::memset(block.memory(), 0x5a, bytes);
    }
  }
}

TEST_CASE("blocks handed out at one time do not overlap") {
  std::vector<Block> blocks;
  for (int i = 0; i < 200; ++i) {
    blocks.emplace_back(Device::cpu(), static_cast<std::size_t>(i * 37 % 3000));
    std::memset(blocks.back().memory(), i, blocks.back().bytes());
  }
  int wrong = 0;
  for (int i = 0; i < 200; ++i) {
    const auto& block = blocks[static_cast<std::size_t>(i)];
    for (std::size_t at = 0; at < block.bytes(); ++at) {
      wrong += static_cast<unsigned char*>(block.memory())[at] != i;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a block given back is handed out again, for sizes nearly equal too") {
  if (!reuses()) {
    return;
  }
  pool_trim(fake);
  reset_fake_device_counts();
  const PoolStats start = pool_stats(fake);
  CHECK(start.held == 0);
  void* first = pool_allocate(fake, 5000);
  const PoolStats taken = pool_stats(fake);
  CHECK(taken.requests == start.requests + 1);
  CHECK(taken.reused == start.reused);
  const std::size_t size = taken.in_use - start.in_use;
  CHECK(size >= 5000);
  pool_release(fake, first, 5000);
  CHECK(pool_stats(fake).in_use == start.in_use);
  CHECK(pool_stats(fake).held == size);
  CHECK(fake_device_counts().releases == 0);
  void* second = pool_allocate(fake, 4990);
  CHECK(second == first);
  CHECK(pool_stats(fake).held == 0);
  CHECK(pool_stats(fake).reused == start.reused + 1);
  CHECK(fake_device_counts().allocations == 1);
  void* larger = pool_allocate(fake, 10000);  // not served by a smaller block
  CHECK(fake_device_counts().allocations == 2);
  pool_release(fake, larger, 10000);
  pool_release(fake, second, 4990);
  // The same sizes again and again ask the system for nothing.
  for (int step = 0; step < 100; ++step) {
    const Block a(fake, 5000);
    const Block b(fake, 10000);
  }
  CHECK(fake_device_counts().allocations == 2);
  CHECK(pool_stats(fake).reused == start.reused + 201);
}

// Whether a block of `second` bytes is the one of `first` bytes that was given back before.
bool serves(std::size_t first, std::size_t second) {
  pool_trim(fake);
  const std::uint64_t reused = pool_stats(fake).reused;
  { const Block freed(fake, first); }
  { const Block wanted(fake, second); }
  return pool_stats(fake).reused - reused == 1;
}

TEST_CASE("sizes of one class serve each other, and no other size") {
  if (!reuses()) {
    return;
  }
  // The largest size of a class, and how far below it the class before ends: 256 bytes up to 4096,
  // then an eighth of the power of two below.
  struct Row {
    std::size_t largest;
    std::size_t step;
  };
  std::vector<Row> rows;
  for (std::size_t largest = 256; largest <= 4096; largest += 256) {
    rows.push_back({largest, 256});
  }
  for (std::size_t power = 4096; power < std::size_t{1} << 24; power *= 2) {
    for (std::size_t eighth = 1; eighth <= 8; ++eighth) {
      rows.push_back({power + eighth * power / 8, power / 8});
    }
  }
  for (const auto [largest, step] : rows) {
    CAPTURE(largest);
    const std::size_t before = pool_stats(fake).in_use;
    {
      const Block block(fake, largest);
      CHECK(pool_stats(fake).in_use - before == largest);
    }
    CHECK(serves(largest, largest - 1));
    CHECK(serves(largest - 1, largest));
    CHECK(serves(largest - step + 1, largest));
    CHECK(serves(largest, largest - step + 1));
    CHECK_FALSE(serves(largest, largest + 1));
    CHECK_FALSE(serves(largest + 1, largest));
    if (largest > step) {
      CHECK_FALSE(serves(largest, largest - step));
    }
  }
  pool_trim(fake);
}

TEST_CASE("trim gives free blocks back and leaves the others") {
  const Block kept(fake, 3000);
  std::memset(kept.memory(), 1, 3000);
  { const Block freed(fake, 7000); }
  reset_fake_device_counts();
  const std::size_t in_use = pool_stats(fake).in_use;
  pool_trim(fake);
  CHECK(pool_stats(fake).held == 0);
  CHECK(pool_stats(fake).in_use == in_use);
  if (reuses()) {
    CHECK(fake_device_counts().releases >= 1);
  }
  CHECK(static_cast<char*>(kept.memory())[2999] == 1);
  { const Block again(fake, 7000); }
  CHECK(fake_device_counts().allocations == 1);
}

TEST_CASE("the peak is the largest in use since it was reset") {
  reset_peak(fake);
  const std::size_t start = pool_stats(fake).in_use;
  CHECK(pool_stats(fake).peak_in_use == start);
  {
    const Block a(fake, 256 * 100);
    const Block b(fake, 256 * 100);
  }
  { const Block c(fake, 256 * 100); }
  CHECK(pool_stats(fake).peak_in_use >= start + 2 * 256 * 100);
  CHECK(pool_stats(fake).peak_in_use < start + 3 * 256 * 100);
  reset_peak(fake);
  CHECK(pool_stats(fake).peak_in_use == start);
}

TEST_CASE("a pool for each device") {
  const PoolStats before = pool_stats(Device::cpu());
  const Block block(fake, 4096);
  CHECK(pool_stats(Device::cpu()).in_use == before.in_use);
  CHECK(pool_stats(Device::cpu()).requests == before.requests);
}

TEST_CASE("more than there is: an Error with what was asked, used and held, and life goes on") {
  for (const Device device : {Device::cpu(), fake}) {
    const Block in_use(device, 1000);
    { const Block freed(device, 20000); }
    for (const std::size_t bytes :
         {std::size_t{1} << 62, std::numeric_limits<std::size_t>::max() / 2,
          std::numeric_limits<std::size_t>::max() / 2 + 1,
          std::numeric_limits<std::size_t>::max()}) {
      const std::size_t before = pool_stats(device).in_use;
      CAPTURE(bytes);
      check_refused([&] { pool_allocate(device, bytes); },
                    {device.str(), "out of memory", "asked for", "are free on the device",
                     "are in use by tensors", "held free were given back"});
      CHECK(pool_stats(device).in_use == before);
    }
    check_refused([&] { pool_allocate(device, std::size_t{1} << 62); },
                  {"asked for 4611686018427387904 bytes"});
    CHECK(pool_stats(device).held == 0);  // given back before giving up
    const Block after(device, 20000);
    std::memset(after.memory(), 1, 20000);
  }
}

TEST_CASE("the numbers of that Error are those of the machine and of the pool") {
  for (const Device device : {Device::cpu(), fake}) {
    const Block in_use(device, 1000);
    pool_trim(device);
    { const Block freed(device, 20000); }
    const PoolStats stats = pool_stats(device);
    const std::string sentence = sentence_of([&] { pool_allocate(device, std::size_t{1} << 62); });
    CAPTURE(sentence);
    unsigned long long asked = 0, free = 0, total = 0, used = 0, held = 0;
    REQUIRE(std::sscanf(sentence.c_str() + device.str().size(),
                        " out of memory: asked for %llu bytes; %llu of %llu bytes are free on the "
                        "device, %llu bytes are in use by tensors, %llu bytes held free",
                        &asked, &free, &total, &used, &held) == 5);
    CHECK(asked == std::size_t{1} << 62);
    CHECK(used == stats.in_use);
    CHECK(held == stats.held);
    // The kernel's own total, from another door than the one that the library takes.
    struct sysinfo machine {};
    REQUIRE(::sysinfo(&machine) == 0);
    CHECK(total == static_cast<unsigned long long>(machine.totalram) * machine.mem_unit);
    CHECK(free > 0);
    CHECK(free <= total);
  }
}

TEST_CASE("a model's worth of blocks is there after a failure") {
  const std::vector<std::size_t> sizes{784u * 1024 * 4, 1024 * 4, 1024u * 1024 * 4, 1024 * 4,
                                       40960};
  for (const Device device : {Device::cpu(), fake}) {
    for (int round = 0; round < 2; ++round) {
      check_refused([&] { pool_allocate(device, std::size_t{1} << 62); }, {"out of memory"});
      std::vector<Block> model;
      for (const std::size_t bytes : sizes) {
        model.emplace_back(device, bytes);
        std::memset(model.back().memory(), 1, bytes);
      }
      check_refused([&] { pool_allocate(device, std::size_t{1} << 62); }, {"out of memory"});
      for (const Block& block : model) {  // what is in use was not given back
        CHECK(static_cast<char*>(block.memory())[block.bytes() - 1] == 1);
      }
    }
  }
}

// Takes and gives back blocks, and looks whether anybody else wrote into them meanwhile.
int hammer(Device device, unsigned id) {
  std::uint64_t state = id;
  std::vector<Block> mine;
  int wrong = 0;
  const auto good = [id](const Block& block) {
    const auto* bytes = static_cast<unsigned char*>(block.memory());
    for (std::size_t at = 0; at < block.bytes(); ++at) {
      if (bytes[at] != id) {
        return false;
      }
    }
    return true;
  };
  for (int step = 0; step < 2000; ++step) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (mine.size() > 8 || (!mine.empty() && (state >> 40) % 2 == 0)) {
      wrong += !good(mine.back());
      mine.pop_back();
    } else {
      mine.emplace_back(device, (state >> 33) % 3000);
      std::memset(mine.back().memory(), static_cast<int>(id), mine.back().bytes());
    }
  }
  for (const Block& block : mine) {
    wrong += !good(block);
  }
  return wrong;
}

TEST_CASE("threads that hammer a pool never get the same block") {
  const std::size_t before = pool_stats(fake).in_use;
  const std::size_t before_cpu = pool_stats(Device::cpu()).in_use;
  constexpr int count = 8;
  int wrong[count] = {};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < count; ++id) {
    threads.emplace_back(
        [id, &wrong] { wrong[id] = hammer(id % 4 == 0 ? Device::cpu() : fake, id + 1); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const int w : wrong) {
    CHECK(w == 0);
  }
  CHECK(pool_stats(fake).in_use == before);
  CHECK(pool_stats(Device::cpu()).in_use == before_cpu);
}

TEST_CASE("child: take and give back twice" * doctest::skip()) {
  reset_fake_device_counts();
  for (int i = 0; i < 2; ++i) {
    const Block block(fake, 5000);
  }
  const FakeDeviceCounts counts = fake_device_counts();
  std::cout << "asked " << counts.allocations << ", released " << counts.releases << ", reused "
            << pool_stats(fake).reused << ", held " << pool_stats(fake).held << std::endl;
}

TEST_CASE("SINTER_POOL=off sends every request to the system and back") {
  const char* child = "child: take and give back twice";
  CHECK(run_child("SINTER_POOL=off", child).says("asked 2, released 2, reused 0, held 0"));
  CHECK(run_child("SINTER_POOL=", child).says("asked 1, released 0, reused 1, held 5120"));
}

}  // namespace
}  // namespace sinter
