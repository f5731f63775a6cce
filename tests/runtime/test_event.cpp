// Events on the devices of host memory; tests/runtime/test_cuda.cpp has those of a GPU.
#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/capture.h>
#include <sinter/runtime/event.h>

namespace sinter {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Event>);
static_assert(std::is_nothrow_move_assignable_v<Event>);
static_assert(!std::is_copy_constructible_v<Event>);

void sleep_ms(int time) { std::this_thread::sleep_for(std::chrono::milliseconds(time)); }

TEST_CASE("the time between two events is the host's, either way round") {
  for (const Device device : {Device::cpu(), Device::fake()}) {
    CAPTURE(device);
    Event start(device);
    Event end(device);
    CHECK(start.device() == device);
    const auto before = std::chrono::steady_clock::now();
    start.record();
    sleep_ms(20);
    end.record();
    const std::chrono::duration<double, std::milli> most =
        std::chrono::steady_clock::now() - before;
    const double taken = end.milliseconds_since(start);
    CHECK(taken >= 20);
    CHECK(taken <= most.count());
    CHECK(start.milliseconds_since(end) == -taken);
    CHECK(start.milliseconds_since(start) == 0);
    CHECK_NOTHROW(end.synchronize());
    start.record();  // again: now it is the later one
    CHECK(start.milliseconds_since(end) >= 0);
  }
}

TEST_CASE("an event moves with what it has recorded") {
  Event start(Device::cpu());
  start.record();
  std::vector<Event> events;
  for (int i = 0; i < 10; ++i) {
    events.emplace_back(Device::cpu());
    events.back().record();
  }
  for (std::size_t i = 1; i < events.size(); ++i) {
    CHECK(events[i].milliseconds_since(events[i - 1]) >= 0);
    CHECK(events[i].milliseconds_since(start) >= events[i - 1].milliseconds_since(start));
  }
  Event moved = std::move(start);
  CHECK(events[0].milliseconds_since(moved) >= 0);
  check_refused([&] { start.record(); }, {"Event::record", "moved"});
  check_refused([&] { start.synchronize(); }, {"Event::synchronize", "not recorded"});
  start = Event(Device::fake());
  CHECK(start.device() == Device::fake());
  CHECK_NOTHROW(start.record());
}

TEST_CASE("events that say nothing about each other are refused") {
  Event event(Device::cpu());
  Event recorded(Device::cpu());
  recorded.record();
  check_refused([&] { event.synchronize(); }, {"Event::synchronize", "cpu", "not recorded"});
  check_refused([&] { event.milliseconds_since(recorded); }, {"not recorded", "record()"});
  check_refused([&] { recorded.milliseconds_since(event); }, {"not recorded", "record()"});
  Event other(Device::fake());
  other.record();
  check_refused([&] { other.milliseconds_since(recorded); }, {"fake", "cpu", "compared"});
  check_refused([] { Event{Device::cuda(4096)}; }, {"cuda:4096"});
  {
    const CaptureScope capture;
    check_refused([&] { event.record(); }, {"Event::record", "captured"});
    check_refused([&] { recorded.synchronize(); }, {"Event::synchronize", "captured"});
  }
  CHECK_NOTHROW(recorded.synchronize());
}

}  // namespace
}  // namespace sinter
