// Choosing a launch shape by timing, on the fake device: its clock is the host's, so a "kernel"
// that waits longer is a slower one.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "../layers/files.h"
#include "../runtime/child.h"
#include <sinter/kernels/autotune.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace {

constexpr std::int64_t large = LaunchChoice::largest;

void wait(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// A kernel whose shape 1 is ten times as fast, or as slow.
struct Kernel {
  const char* name;
  int fast;
  std::atomic<int> launches{0};
  LaunchChoice choice{};

  int pick(std::int64_t n = large, bool repeatable = true, int default_shape = 0,
           Device device = Device::fake()) {
    return choice.pick(device, n, {"test", name, ""}, default_shape, repeatable, [this](int shape) {
      ++launches;
      wait(std::chrono::microseconds(shape == fast ? 100 : 1000));
    });
  }
};

constinit LaunchChoice made_before_main;

TEST_CASE("a small tensor takes the default, and nothing is timed") {
  Kernel kernel{"small", 1};
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, LaunchChoice::smallest - 1}) {
    CHECK(kernel.pick(n) == 0);
    CHECK(kernel.pick(n, true, 1) == 1);
  }
  CHECK(kernel.launches == 0);
}

TEST_CASE("so does a device beyond those that are kept apart") {
  Kernel kernel{"many devices", 1};
  CHECK(kernel.pick(large, true, 1, Device::cuda(1000)) == 1);
  CHECK(kernel.launches == 0);
}

TEST_CASE("the other shape must be faster by more than 2 %") {
  CHECK(detail::faster_shape({1.0, 1.0}, 0) == 0);
  CHECK(detail::faster_shape({1.0, 1.0}, 1) == 1);
  CHECK(detail::faster_shape({1.0, 0.985}, 0) == 0);
  CHECK(detail::faster_shape({1.0, 0.975}, 0) == 1);
  CHECK(detail::faster_shape({0.985, 1.0}, 1) == 1);
  CHECK(detail::faster_shape({0.975, 1.0}, 1) == 0);
  CHECK(detail::faster_shape({0.0, 0.0}, 1) == 1);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(detail::faster_shape({nan, 1.0}, 0) == 0);
  CHECK(detail::faster_shape({nan, nan}, 1) == 1);
}

TEST_CASE("a forced shape is taken by every kernel at every size, as long as it is forced") {
  Kernel kernel{"forced", 1};
  for (const int shape : {0, 1}) {
    const ForcedShape forced(shape);
    CHECK(kernel.pick(0) == shape);
    CHECK(kernel.pick(large) == shape);
    CHECK(kernel.pick(large, false, 1 - shape) == shape);
    {
      const ForcedShape inner(1 - shape);
      CHECK(kernel.pick(0) == 1 - shape);
    }
    CHECK(kernel.pick(0) == shape);
  }
  CHECK(kernel.launches == 0);
  CHECK(kernel.pick(0) == 0);
  CHECK(made_before_main.pick(Device::fake(), 5, {"x"}, 1, true, [](int) {}) == 1);
}

TEST_CASE("child: kernels choose" * doctest::skip()) {
  Kernel fast_0{"fast 0", 0};
  Kernel fast_1{"fast 1", 1};
  std::cout << "chosen " << fast_0.pick() << fast_1.pick() << fast_0.pick(large, true, 1)
            << fast_1.pick(large, true, 1) << ", ";
  const int timed = fast_0.launches + fast_1.launches;
  std::cout << (timed > 0 ? "timed" : "not timed") << std::endl;
  for (int i = 0; i < 100; ++i) {
    fast_0.pick(large + i);
    fast_1.pick(large + i);
  }
  CHECK(fast_0.launches + fast_1.launches == timed);
}

TEST_CASE(
    "SINTER_AUTOTUNE: the faster shape is found, kept for the next process, or not looked for") {
  const testing::TemporaryFolder folder;
  const std::string home = text(" XDG_CACHE_HOME='", folder.path().string(), "'");
  const std::string file = (folder / "sinter/autotune.json").string();
  const auto run = [&home](const std::string& environment) {
    const ChildOutput out = run_child(environment + home, "child: kernels choose");
    CAPTURE(out.text);
    CHECK(out.passed);
    return out;
  };
  CHECK(run("SINTER_AUTOTUNE=off").says("chosen 0000, not timed"));
  CHECK_FALSE(std::filesystem::exists(file));

  CHECK(run("env -u SINTER_AUTOTUNE").says("chosen 0101, timed"));
  const std::string stored = testing::read_bytes(file);
  CHECK(stored.find("\"test fast 0 from 2^26\": 0") != std::string::npos);
  CHECK(stored.find("\"test fast 1 from 2^26\": 1") != std::string::npos);
  for (const char* on : {"env -u SINTER_AUTOTUNE", "SINTER_AUTOTUNE=", "SINTER_AUTOTUNE=on"}) {
    const ChildOutput out = run(on);
    CHECK(out.says("chosen 0101, not timed"));
    CHECK_FALSE(out.says("[sinter]"));
  }

  // What the file says is believed, until it is to be measured anew.
  std::string wrong = stored;
  wrong.replace(wrong.find("fast 1 from 2^26\": 1") + 19, 1, "0");
  testing::write_bytes(file, wrong);
  CHECK(run("SINTER_AUTOTUNE=on").says("chosen 0000, not timed"));
  CHECK(run("SINTER_AUTOTUNE=refresh").says("chosen 0101, timed"));
  CHECK(testing::read_bytes(file) == stored);

  const ChildOutput rubbish = run("SINTER_AUTOTUNE=yes");
  CHECK(rubbish.says("chosen 0101, not timed"));
  CHECK(rubbish.count("[sinter] warning: SINTER_AUTOTUNE=yes is unknown: expected off, on or "
                      "refresh; using on\n") == 1);
  CHECK(rubbish.count("[sinter]") == 1);

  testing::write_bytes(file, "rubbish");
  CHECK(run("SINTER_AUTOTUNE=on").says("chosen 0101, timed"));
  CHECK(testing::read_bytes(file) == stored);

  CHECK(run_child("SINTER_AUTOTUNE=on XDG_CACHE_HOME=/dev/null", "child: kernels choose")
            .says("chosen 0101, timed"));
}

TEST_CASE("child: what may be timed" * doctest::skip()) {
  Kernel kernel{"fast 1", 1};
  {
    const CaptureScope capture;
    CHECK(kernel.pick() == 0);
    CHECK(kernel.pick(large, true, 1) == 1);
  }
  CHECK(kernel.pick(large, false) == 0);
  CHECK(kernel.pick(large, false, 1) == 1);
  CHECK(kernel.launches == 0);
  // The first call that may be repeated finds out, for those that may not as well.
  CHECK(kernel.pick() == 1);
  CHECK(kernel.launches > 0);
  const int timed = kernel.launches;
  CHECK(kernel.pick(large, false) == 1);
  {
    const CaptureScope capture;
    CHECK(kernel.pick() == 1);
  }
  CHECK(kernel.launches == timed);
  // Sizes are told apart, and so are devices.
  CHECK(kernel.pick(large - 1) == 1);
  CHECK(kernel.launches > timed);
  const int both = kernel.launches;
  CHECK(kernel.pick(LaunchChoice::larger) == 1);
  CHECK(kernel.launches == both);
  // The same kernel and another object: what is known is taken from the first.
  Kernel again{"fast 1", 1};
  CHECK(again.pick(large, false) == 1);
  CHECK(again.launches == 0);
}

TEST_CASE("nothing is timed in a captured graph, nor what may not be repeated") {
  const testing::TemporaryFolder folder;
  const std::string home = text("XDG_CACHE_HOME='", folder.path().string(), "'");
  const ChildOutput out = run_child(text("SINTER_AUTOTUNE=on ", home), "child: what may be timed");
  CAPTURE(out.text);
  CHECK(out.passed);
}

TEST_CASE("child: threads and failures" * doctest::skip()) {
  Kernel kernel{"fast 1", 1};
  const auto fails = [](int) { throw Error("no launch"); };
  CHECK_THROWS_AS(kernel.choice.pick(Device::fake(), large, {"test"}, 0, true, fails), Error);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { right += kernel.pick(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(right == 4);
  Kernel alone{"fast 1, alone", 1};
  CHECK(alone.pick() == 1);
  CHECK(kernel.launches == alone.launches);  // one thread measured, the others waited for it
}

TEST_CASE("threads that ask at once measure once, and a launch that throws leaves no choice") {
  const testing::TemporaryFolder folder;
  const std::string home = text("XDG_CACHE_HOME='", folder.path().string(), "'");
  const ChildOutput out =
      run_child(text("SINTER_AUTOTUNE=on ", home), "child: threads and failures");
  CAPTURE(out.text);
  CHECK(out.passed);
}

}  // namespace
}  // namespace sinter
