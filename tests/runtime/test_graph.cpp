// Graphs on the fake device, whose only work is filling and copying; tests/training/test_cuda_*.cpp
// have those of a GPU.
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/graph.h>
#include <sinter/runtime/pool.h>
#include <sinter/runtime/tensor.h>

namespace sinter {
namespace {

using Floats = std::vector<float>;

Tensor on_fake(const Floats& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, Device::fake());
}

// A live value that counts up: what it holds is `next`, which each replay raises.
std::function<void(std::span<std::byte>)> counting(const float& next) {
  return [&next](std::span<std::byte> to) { std::memcpy(to.data(), &next, sizeof next); };
}

TEST_CASE("recorded work is done by each replay and not before") {
  Graph graph(Device::fake());
  CHECK_FALSE(graph.is_recorded());
  const Tensor from = on_fake({1, 2, 3});
  Tensor to = on_fake({0, 0, 0});
  graph.record([&] {
    CHECK(Graph::recording() == &graph);
    CHECK(is_capturing());
    to.copy_from(from);
  });
  CHECK(Graph::recording() == nullptr);
  CHECK_FALSE(is_capturing());
  CHECK(graph.is_recorded());
  CHECK(to.to_vector<float>() == Floats{0, 0, 0});
  graph.replay();
  CHECK(to.to_vector<float>() == Floats{1, 2, 3});
  to.fill(7);
  graph.replay();
  CHECK(to.to_vector<float>() == Floats{1, 2, 3});
}

TEST_CASE("live values are written anew for each replay") {
  Graph graph(Device::fake());
  float next = 1;
  Tensor to = on_fake({0});
  Tensor wide = Tensor::zeros({100'000}, DType::uint8, Device::fake());
  graph.record([&] {
    to.copy_from(graph.live({1}, DType::float32, counting(next)));
    // More than a block of its own.
    wide.copy_from(graph.live({100'000}, DType::uint8, [&](std::span<std::byte> bytes) {
      std::memset(bytes.data(), static_cast<int>(next), bytes.size());
    }));
  });
  for (; next < 4; ++next) {
    reset_fake_device_counts();
    graph.replay();
    CHECK(to.to_vector<float>() == Floats{next});
    const auto bytes = wide.to_vector<std::uint8_t>();
    CHECK(bytes.front() == static_cast<std::uint8_t>(next));
    CHECK(bytes.back() == static_cast<std::uint8_t>(next));
  }
}

TEST_CASE("many live values go to the device in one copy") {
  Graph graph(Device::fake());
  const float value = 3;
  std::vector<Tensor> kept;
  graph.record([&] {
    for (int i = 0; i < 100; ++i) {
      kept.push_back(graph.live({1}, DType::float32, counting(value)));
    }
  });
  reset_fake_device_counts();
  graph.replay();
  CHECK(fake_device_counts().copies_from_host == 1);
  CHECK(kept.back().to_vector<float>() == Floats{3});
}

TEST_CASE("work recorded before a live value was asked for does not write to it") {
  Graph graph(Device::fake());
  float next = 4;
  Tensor to = on_fake({0});
  graph.record([&] {
    // Of every size that a block of live values may have.
    for (std::int64_t bytes = 256; bytes <= std::int64_t{16} << 20; bytes *= 2) {
      Tensor::empty({bytes}, DType::uint8, Device::fake()).fill(1);
    }
    to.copy_from(graph.live({1}, DType::float32, counting(next)));
  });
  graph.replay();
  CHECK(to.to_vector<float>() == Floats{4});
}

TEST_CASE("what the host did while recording is taken back, and done again after each replay") {
  Graph graph(Device::fake());
  int steps = 5;
  std::vector<int> ends;
  graph.record([&] {
    bool is_new = false;
    CHECK(graph.advanced(&steps, 5, is_new) == 0);
    CHECK(is_new);
    graph.when_recorded([&, before = steps] {
      ends.push_back(1);
      const int made = steps - before;
      steps = before;
      graph.when_replayed([&steps, made] { steps += made; });
    });
    graph.when_recorded([&] { ends.push_back(2); });
    steps += 3;
    CHECK(graph.advanced(&steps, 8, is_new) == 3);
    CHECK_FALSE(is_new);
  });
  CHECK(ends == std::vector{2, 1});
  CHECK(steps == 5);
  graph.replay();
  graph.replay();
  CHECK(steps == 11);
}

TEST_CASE("a replay raises the versions of what the work writes") {
  Graph graph(Device::fake());
  Tensor written = on_fake({1});
  Tensor other = on_fake({1});
  graph.record([&] {
    Tensor own = Tensor::empty({1}, DType::float32, Device::fake());
    graph.writes(own);  // gone when recording ends
    graph.writes(written);
    graph.writes(written);
  });
  const auto before = written.version();
  const auto before_other = other.version();
  graph.replay();
  CHECK(written.version() == before + 1);
  CHECK(other.version() == before_other);
}

TEST_CASE("work that throws leaves nothing to replay") {
  Graph graph(Device::fake());
  int steps = 1;
  const auto failing = [&] {
    graph.when_recorded([&] { steps = 1; });
    steps = 9;
    graph.live({1}, DType::float32, [](std::span<std::byte>) { FAIL("no replay, no live value"); });
    throw std::runtime_error("out");
  };
  CHECK_THROWS_AS(graph.record(failing), std::runtime_error);
  CHECK(steps == 1);
  CHECK_FALSE(graph.is_recorded());
  CHECK_FALSE(is_capturing());
  CHECK(Graph::recording() == nullptr);
  check_refused([&] { graph.replay(); }, {"Graph::replay", "nothing has been recorded"});
  // It can be tried again, and the device works as before.
  Tensor to = on_fake({0});
  graph.record([&] { to.fill(2); });
  graph.replay();
  CHECK(to.to_vector<float>() == Floats{2});
}

TEST_CASE("a copy to the host cannot be recorded") {
  Graph graph(Device::fake());
  const Tensor x = on_fake({1});
  check_refused([&] { graph.record([&] { (void)x.item(); }); }, {"host", "captured"});
  CHECK(x.item() == 1);
}

TEST_CASE("recording within recording, twice, and on the CPU are errors that say so") {
  Graph graph(Device::fake());
  Graph inner(Device::fake());
  check_refused([&] { graph.record([&] { inner.record([] {}); }); }, {"recording", "already"});
  graph.record([] {});
  check_refused([&] { graph.record([] {}); }, {"has been recorded"});
  CHECK_FALSE(Graph::can_record(Device::cpu()));
  CHECK(Graph::can_record(Device::fake()));
  CHECK_FALSE(Graph::can_record(Device::cuda(99)));
  check_refused([] { Graph none(Device::cpu()); }, {"cpu", "records no graphs"});
}

TEST_CASE("memory that recorded work used is nobody else's while the graph lives") {
  const Device device = Device::fake();
  pool_trim(device);
  const auto before = pool_stats(device);
  Tensor outside = Tensor::full({300}, 1, DType::float32, device);
  const void* released_while_recording = outside.address();
  {
    Graph graph(device);
    std::vector<const void*> addresses;
    Tensor kept;
    graph.record([&] {
      for (int i = 0; i < 3; ++i) {
        // One block serves all three.
        Tensor t = Tensor::empty({1000}, DType::float32, device);
        t.fill(i);
        addresses.push_back(t.address());
      }
      kept = Tensor::empty({2000}, DType::float32, device);
      kept.fill(4);
      outside = {};
    });
    CHECK(addresses[0] == addresses[1]);
    CHECK(addresses[0] == addresses[2]);
    // Outside, neither what the work made nor what it let go is handed out.
    std::vector<Tensor> others;
    for (int i = 0; i < 4; ++i) {
      others.push_back(Tensor::full({1000}, 9, DType::float32, device));
      others.push_back(Tensor::full({300}, 9, DType::float32, device));
      CHECK(others[2 * static_cast<std::size_t>(i)].address() != addresses[0]);
      CHECK(others.back().address() != released_while_recording);
    }
    graph.replay();
    for (const Tensor& other : others) {
      CHECK(other.to_vector<float>() == Floats(static_cast<std::size_t>(other.numel()), 9));
    }
    CHECK(kept.to_vector<float>() == Floats(2000, 4));
    // Released after recording, it stays with the graph all the same.
    const void* address = kept.address();
    kept = {};
    CHECK(Tensor::empty({2000}, DType::float32, device).address() != address);
  }
  // With the graph gone all of it is free again.
  CHECK(pool_stats(device).in_use == before.in_use);
}

TEST_CASE("memory that work beside has released is nobody else's before it is joined") {
  Graph graph(Device::fake());
  const auto one = [] { return Tensor::empty({64}, DType::float32, Device::fake()); };
  graph.record([&] {
    const std::byte* beside = nullptr;
    graph.beside([&] {
      beside = one().address();
      CHECK(graph.is_beside());
    });
    CHECK_FALSE(graph.is_beside());
    const Tensor meanwhile = one();
    CHECK(meanwhile.address() != beside);
    graph.join();
    CHECK(one().address() == beside);
    CHECK(sentence_of([&] { graph.beside([&] { graph.beside([] {}); }); }) ==
          "Graph::beside: work beside cannot have work beside itself");
    graph.beside([] {});  // joined by the end of the recording
  });
  CHECK(graph.is_recorded());
  CHECK(sentence_of([&] { graph.beside([] {}); }) == "Graph::beside: it is not being recorded");
}

TEST_CASE("work beside that throws leaves nothing to replay, and the graph can be recorded anew") {
  Graph graph(Device::fake());
  const Tensor from = on_fake({5});
  Tensor to = on_fake({0});
  const auto fails = [&] { graph.beside([] { throw std::runtime_error("no"); }); };
  CHECK_THROWS_AS(graph.record(fails), std::runtime_error);
  CHECK_FALSE(graph.is_recorded());
  graph.record([&] { graph.beside([&] { to.copy_from(from); }); });
  graph.replay();
  CHECK(to.to_vector<float>() == Floats{5});
}

TEST_CASE("a tensor that outlives its graph is released like any other") {
  const Device device = Device::fake();
  const auto before = pool_stats(device).in_use;
  Tensor kept;
  {
    Graph graph(device);
    graph.record([&] { kept = Tensor::empty({500}, DType::float32, device); });
  }
  kept.fill(3);
  CHECK(kept.to_vector<float>() == Floats(500, 3));
  kept = {};
  CHECK(pool_stats(device).in_use == before);
}

TEST_CASE("host memory is not leased while a graph of another device is recorded") {
  Graph graph(Device::fake());
  const auto before = pool_stats(Device::cpu()).in_use;
  graph.record([] { (void)Tensor::empty({1000}); });
  CHECK(pool_stats(Device::cpu()).in_use == before);
}

TEST_CASE("a fault that kernels note is returned once") {
  Graph graph(Device::fake());
  graph.record([] {});
  graph.replay();
  Tensor fault = graph.fault();
  CHECK_FALSE(Graph::take_fault(fault));
  fault.copy_from(Tensor::from(std::vector<std::int64_t>{17, 12, 10}, {3}));
  CHECK(Graph::take_fault(fault) == std::array<std::int64_t, 3>{17, 12, 10});
  CHECK_FALSE(Graph::take_fault(fault));
  CHECK(graph.fault().to_vector<std::int64_t>()[0] == Graph::no_fault);
  const Graph other(Device::fake(), fault);
  CHECK(other.fault().address() == graph.fault().address());
}

}  // namespace
}  // namespace sinter
