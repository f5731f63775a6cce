// The two devices of host memory: the CPU, and the fake device that tests count with.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace {

constexpr std::size_t alignment = 256;

std::string name_of_host(int) { return "this machine's processors"; }
std::string versions_of_host() { return {}; }

// What the kernel says that it could still hand out, caches that it would drop included.
Backend::Memory host_memory(int) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Backend::Memory memory{static_cast<std::size_t>(::sysconf(_SC_AVPHYS_PAGES)) * page,
                         static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page};
  std::ifstream lines("/proc/meminfo");
  std::size_t kibibytes = 0;
  for (std::string word; lines >> word;) {
    if (word == "MemAvailable:" && lines >> kibibytes) {
      memory.free = kibibytes * 1024;
      break;
    }
  }
  return memory;
}

void* allocate_host(int, std::size_t bytes) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, std::max(rounded, alignment));
}
void release_host(int, void* memory) noexcept { std::free(memory); }
void copy_host(int, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {  // an empty tensor may have no memory, and memcpy takes no null pointer
    std::memmove(to, from, bytes);
  }
}
void fill_host(int, void* to, const void* value, std::size_t size, std::size_t count) {
  const auto fill = [&]<class T>(T element) {
    std::memcpy(&element, value, sizeof(T));
    std::fill_n(static_cast<T*>(to), count, element);
  };
  switch (size) {
    case 1:
      return fill(std::uint8_t{});
    case 2:
      return fill(std::uint16_t{});
    case 4:
      return fill(std::uint32_t{});
    default:
      return fill(std::uint64_t{});
  }
}
void synchronize_host(int) {}
int one_device() { return 1; }
std::string never_absent() { return {}; }

// Host work is done when its call returns, so an event is the time at which it was recorded.
using Clock = std::chrono::steady_clock;
void* make_host_event(int) { return new Clock::time_point; }
void release_host_event(int, void* event) noexcept {
  delete static_cast<Clock::time_point*>(event);
}
void record_host_event(int, void* event) { *static_cast<Clock::time_point*>(event) = Clock::now(); }
void synchronize_host_event(int, void*) {}
double host_milliseconds(int, void* from, void* to) {
  return std::chrono::duration<double, std::milli>(*static_cast<Clock::time_point*>(to) -
                                                   *static_cast<Clock::time_point*>(from))
      .count();
}

std::mutex counts_mutex;
FakeDeviceCounts counts;

template <class Change>
void count(Change change) {
  const std::scoped_lock lock(counts_mutex);
  change(counts);
}

// Fills and copies on the fake device are its only work; a graph is a row of them.
using FakeGraph = std::vector<std::function<void()>>;
thread_local std::unique_ptr<FakeGraph> recorded;

void do_or_record(std::function<void()> work) {
  if (recorded) {
    recorded->push_back(std::move(work));
  } else {
    work();
  }
}
void copy_fake(int index, void* to, const void* from, std::size_t bytes) {
  do_or_record([=] { copy_host(index, to, from, bytes); });
}
void fill_fake(int index, void* to, const void* value, std::size_t size, std::size_t n) {
  std::array<std::byte, 8> kept{};
  std::memcpy(kept.data(), value, size);
  do_or_record([=] { fill_host(index, to, kept.data(), size, n); });
}
void begin_fake_capture(int) { recorded = std::make_unique<FakeGraph>(); }
void* end_fake_capture(int, bool keep) {
  const auto graph = std::exchange(recorded, nullptr);
  return keep ? new FakeGraph(std::move(*graph)) : nullptr;
}
void replay_fake(int, void* graph) {
  for (const auto& work : *static_cast<FakeGraph*>(graph)) {
    work();
  }
}
void release_fake_graph(int, void* graph) noexcept { delete static_cast<FakeGraph*>(graph); }
std::int64_t kernels_of_fake_graph(void*) { return 0; }  // it only fills and copies
void refuse_fake_capture() {
  check(!recorded, "a copy between host and device cannot be captured in a graph");
}

void* allocate_fake(int index, std::size_t bytes) {
  count([](auto& c) { ++c.allocations; });
  return allocate_host(index, bytes);
}
void release_fake(int index, void* memory) noexcept {
  count([](auto& c) { ++c.releases; });
  release_host(index, memory);
}
void copy_in_fake(int index, void* to, const void* from, std::size_t bytes) {
  refuse_fake_capture();
  count([bytes](auto& c) {
    ++c.copies_from_host;
    c.bytes_copied += bytes;
  });
  copy_host(index, to, from, bytes);
}
void copy_out_fake(int index, void* to, const void* from, std::size_t bytes) {
  refuse_fake_capture();
  count([bytes](auto& c) {
    ++c.copies_to_host;
    c.bytes_copied += bytes;
  });
  copy_host(index, to, from, bytes);
}

}  // namespace

const Backend cpu_backend{
    .count = one_device,
    .absent_because = never_absent,
    .name = name_of_host,
    .versions = versions_of_host,
    .memory = host_memory,
    .allocate = allocate_host,
    .release = release_host,
    .copy_from_host = copy_host,
    .copy_to_host = copy_host,
    .copy = copy_host,
    .fill = fill_host,
    .synchronize = synchronize_host,
    .make_event = make_host_event,
    .release_event = release_host_event,
    .record_event = record_host_event,
    .synchronize_event = synchronize_host_event,
    .milliseconds = host_milliseconds,
    .begin_capture = nullptr,
    .end_capture = nullptr,
    .replay_graph = nullptr,
    .release_graph = nullptr,
    .kernels_of_graph = nullptr,
    .begin_branch = nullptr,
    .end_branch = nullptr,
    .join_branch = nullptr,
};

const Backend fake_backend{
    .count = one_device,
    .absent_because = never_absent,
    .name = name_of_host,
    .versions = versions_of_host,
    .memory = host_memory,
    .allocate = allocate_fake,
    .release = release_fake,
    .copy_from_host = copy_in_fake,
    .copy_to_host = copy_out_fake,
    .copy = copy_fake,
    .fill = fill_fake,
    .synchronize = synchronize_host,
    .make_event = make_host_event,
    .release_event = release_host_event,
    .record_event = record_host_event,
    .synchronize_event = synchronize_host_event,
    .milliseconds = host_milliseconds,
    .begin_capture = begin_fake_capture,
    .end_capture = end_fake_capture,
    .replay_graph = replay_fake,
    .release_graph = release_fake_graph,
    .kernels_of_graph = kernels_of_fake_graph,
    .begin_branch = nullptr,
    .end_branch = nullptr,
    .join_branch = nullptr,
};

FakeDeviceCounts fake_device_counts() {
  const std::scoped_lock lock(counts_mutex);
  return counts;
}

void reset_fake_device_counts() {
  const std::scoped_lock lock(counts_mutex);
  counts = {};
}

}  // namespace sinter
