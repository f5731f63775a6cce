// The CUDA device: memory, copies, fills and errors. Skipped aloud where there is none.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "child.h"
#include "sentence.h"
#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/event.h>
#include <sinter/runtime/pool.h>
#include <sinter/runtime/tensor.h>

using namespace sinter;

namespace {

// Bytes in which no two nearby stretches of a piece's length are equal.
std::vector<std::uint8_t> pattern(std::int64_t n, std::uint32_t seed) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n));
  std::uint32_t state = seed;
  for (std::uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

}  // namespace

TEST_CASE("CUDA: tensors of every type and odd length go there and back unchanged") {
  if (!has_gpu()) {
    return;
  }
  for (const std::int64_t n : {0, 1, 3, 255, 256, 257, 100003}) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(i * 37 + 11);
    }
    const Tensor there = Tensor::from(bytes, {n}, Device::cuda());
    CHECK(there.device() == Device::cuda());
    CHECK(there.to_vector<std::uint8_t>() == bytes);
    CHECK(there.clone().to(Device::cpu()).to_vector<std::uint8_t>() == bytes);
    for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                              DType::int64, DType::int32}) {
      const Tensor host = Tensor::from(bytes, {n}).to(dtype);
      const Tensor back = host.to(Device::cuda()).to(Device::cpu());
      CHECK(back.to(DType::uint8).to_vector<std::uint8_t>() == bytes);
    }
  }
}

TEST_CASE("CUDA: fill writes every element and no other") {
  if (!has_gpu()) {
    return;
  }
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                            DType::int64, DType::int32, DType::uint8}) {
    CAPTURE(dtype);
    for (const std::int64_t n : {1, 2, 31, 257, 1000001}) {
      Tensor whole = Tensor::zeros({n + 2}, dtype, Device::cuda());
      whole.view_rows(1, n + 1).fill(3.0);
      const auto values = whole.to(Device::cpu()).to(DType::float64).to_vector<double>();
      double sum = 0;
      for (const double value : values) {
        sum += value;
      }
      CHECK(values.front() == 0);
      CHECK(values.back() == 0);
      CHECK(sum == 3.0 * static_cast<double>(n));
    }
  }
}

TEST_CASE("CUDA: memory that is not there is one sentence, and a model fits afterwards") {
  if (!has_gpu()) {
    return;
  }
  const Device gpu = Device::cuda();
  const Backend::Memory before = backend(DeviceType::cuda).memory(0);
  CHECK(before.free > 0);
  CHECK(before.free < before.total);
  const Tensor kept = Tensor::full({1000}, 3.0, DType::float32, gpu);
  { const Tensor freed = Tensor::zeros({std::int64_t{64} << 20}, DType::uint8, gpu); }
  // Far too much, and a little more than the whole device.
  for (const std::int64_t bytes :
       {std::int64_t{1} << 45, static_cast<std::int64_t>(before.total) + 1}) {
    check_refused([&] { Tensor::empty({bytes}, DType::uint8, gpu); },
                  {text("cuda:0 out of memory: asked for ", bytes, " bytes; "),
                   text(" of ", before.total, " bytes are free on the device"), "in use by tensors",
                   "bytes held free were given back first"});
    CHECK(pool_stats(gpu).held == 0);
  }
  std::vector<Tensor> model;
  for (int layer = 0; layer < 8; ++layer) {
    model.push_back(Tensor::full({4096, 4096}, layer, DType::float32, gpu));
  }
  CHECK(model[7].clone().to_vector<float>() == std::vector<float>(4096 * 4096, 7.0f));
  CHECK(kept.to_vector<float>() == std::vector<float>(1000, 3.0f));
  pool_trim(gpu);
  CHECK(pool_stats(gpu).held == 0);
}

TEST_CASE("CUDA: copies in one piece and in many go there and back unchanged") {
  if (!has_gpu()) {
    return;
  }
  constexpr std::int64_t small = 64 << 10;
  constexpr std::int64_t piece = 4 << 20;
  for (const std::int64_t n : {small - 1, small, small + 1, piece - 1, piece, piece + 1, 2 * piece,
                               2 * piece + 1, 3 * piece - 1, 7 * piece + 12345}) {
    CAPTURE(n);
    const auto bytes = pattern(n, static_cast<std::uint32_t>(n));
    // At an odd address on both sides, and the neighbours stay as they are.
    Tensor whole = Tensor::full({n + 2}, 7, DType::uint8, Device::cuda());
    whole.view_rows(1, n + 1).copy_from(std::span<const std::uint8_t>(bytes));
    CHECK(whole.view_rows(1, n + 1).to_vector<std::uint8_t>() == bytes);
    const auto all = whole.to_vector<std::uint8_t>();
    CHECK(all.front() == 7);
    CHECK(all.back() == 7);
  }
}

TEST_CASE("CUDA: a copy to the device has read the host's memory when it returns") {
  if (!has_gpu()) {
    return;
  }
  for (const std::int64_t n : {5, 1000, 100003, (9 << 20) + 1}) {
    CAPTURE(n);
    const auto wanted = pattern(n, 1);
    Tensor there = Tensor::empty({n}, DType::uint8, Device::cuda());
    // The device is kept busy, so that the copy is still to come when the host writes.
    Tensor busy = Tensor::empty({std::int64_t{1} << 30}, DType::uint8, Device::cuda());
    for (int i = 0; i < 20; ++i) {
      busy.fill(i);
    }
    auto bytes = wanted;
    there.copy_from(std::span<const std::uint8_t>(bytes));
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xee});
    CHECK(there.to_vector<std::uint8_t>() == wanted);
  }
}

TEST_CASE("CUDA: threads that copy at once get what is theirs") {
  if (!has_gpu()) {
    return;
  }
  constexpr int count = 4;
  int wrong[count] = {};
  std::vector<std::thread> threads;
  for (int id = 0; id < count; ++id) {
    threads.emplace_back([id, &wrong] {
      for (int round = 0; round < 10; ++round) {
        const std::int64_t n = (std::int64_t{1} << (10 + 4 * ((id + round) % 4))) + id;
        const auto bytes = pattern(n, static_cast<std::uint32_t>(id * 100 + round));
        const Tensor there = Tensor::from(bytes, {n}, Device::cuda());
        wrong[id] += there.to_vector<std::uint8_t>() != bytes;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const int w : wrong) {
    CHECK(w == 0);
  }
}

TEST_CASE("CUDA: a copy that fails half way is an Error, and the next one works") {
  if (!has_gpu()) {
    return;
  }
  const Backend& cuda = backend(DeviceType::cuda);
  auto bytes = pattern((9 << 20) + 1, 3);
  const auto n = static_cast<std::int64_t>(bytes.size());
  const Tensor shorter = Tensor::empty({5 << 20}, DType::uint8, Device::cuda());
  for (int round = 0; round < 3; ++round) {
    // The first piece fits, the second one does not.
    for (const std::string& sentence :
         {sentence_of(
              [&] { cuda.copy_from_host(0, shorter.address(), bytes.data(), bytes.size()); }),
          sentence_of([&] {
            auto scratch = bytes;
            cuda.copy_to_host(0, scratch.data(), shorter.address(), scratch.size());
          })}) {
      CAPTURE(sentence);
      CHECK(sentence.starts_with("CUDA: cudaMemcpyAsync failed on cuda:0: "));
      CHECK(sentence.find("lost") == std::string::npos);
    }
    Tensor there = Tensor::empty({n}, DType::uint8, Device::cuda());
    there.copy_from(std::span<const std::uint8_t>(bytes));
    CHECK(there.to_vector<std::uint8_t>() == bytes);
  }
}

TEST_CASE("child: write where the GPU has no memory" * doctest::skip()) {
  const std::uint32_t value = 1;
  backend(DeviceType::cuda).fill(0, reinterpret_cast<void*>(std::uintptr_t{256}), &value, 4, 1);
  std::cout << "said: " << sentence_of([] { synchronize(Device::cuda()); }) << std::endl;
  std::cout << "then: " << sentence_of([] {
    Tensor::zeros({1 << 20}, DType::uint8, Device::cuda());
  }) << std::endl;
}

TEST_CASE("CUDA: a kernel's fault says that the process has lost the device, and ends nothing") {
  if (!has_gpu()) {
    return;
  }
  const ChildOutput out = run_child("", "child: write where the GPU has no memory");
  CAPTURE(out.text);
  CHECK(out.passed);
  CHECK(out.says("said: CUDA: cudaStreamSynchronize failed on cuda:0: "));
  CHECK(out.count("the device is lost for this process, which has to be started again") == 2);
}

TEST_CASE("CUDA: events time what the device does, not when the host asked") {
  if (!has_gpu()) {
    return;
  }
  const Device gpu = Device::cuda();
  Tensor large = Tensor::zeros({std::int64_t{1} << 30}, DType::uint8, gpu);
  synchronize(gpu);
  Event start(gpu);
  Event end(gpu);
  check_refused([&] { end.synchronize(); }, {"Event::synchronize", "not recorded"});
  start.record();
  for (int i = 0; i < 20; ++i) {
    large.fill(i);
  }
  end.record();
  // 20 GiB at no more than 20 TB/s, faster than any GPU's memory, is a millisecond at least.
  const double taken = end.milliseconds_since(start);
  CHECK(taken > 1);
  CHECK(taken < 10000);
  CHECK(start.milliseconds_since(end) == doctest::Approx(-taken));
  Event host(Device::cpu());
  host.record();
  check_refused([&] { end.milliseconds_since(host); }, {"cuda:0", "cpu"});
  {
    const CaptureScope capture;
    check_refused([&] { end.record(); }, {"captured"});
  }
  CHECK_NOTHROW(end.synchronize());
}

TEST_CASE("CUDA: no copy to the host while a graph is captured") {
  if (!has_gpu()) {
    return;
  }
  const Tensor there = Tensor::zeros({4}, DType::float32, Device::cuda());
  {
    const CaptureScope capture;
    CHECK_THROWS_AS(there.to(Device::cpu()), Error);
  }
  CHECK(there.to(Device::cpu()).numel() == 4);
}

TEST_CASE("CUDA: a device number that does not exist says how many there are") {
  if (!has_gpu()) {
    return;
  }
  CHECK_THROWS_AS(Tensor::zeros({1}, DType::float32, Device::cuda(99)), Error);
  CHECK_FALSE(is_available(Device::cuda(99)));
}
