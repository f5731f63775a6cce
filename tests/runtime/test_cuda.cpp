// The CUDA device: memory, copies, fills and errors. Skipped aloud where there is none.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/runtime/capture.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/pool.h>
#include <sinter/runtime/tensor.h>

using namespace sinter;

namespace {

bool has_gpu() {
  const bool found = is_available(Device::cuda());
  if (!found) {
    MESSAGE("SKIPPED (no CUDA device)");
  }
  return found;
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

TEST_CASE("CUDA: memory that is not there is one sentence, and the next request works") {
  if (!has_gpu()) {
    return;
  }
  const std::int64_t too_much = std::int64_t{1} << 45;  // 32 TiB of bytes
  try {
    Tensor::empty({too_much}, DType::uint8, Device::cuda());
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.find("cuda:0 out of memory: asked for") != std::string::npos);
    CHECK(message.find("in use") != std::string::npos);
  }
  CHECK(Tensor::full({5}, 2.0, DType::float32, Device::cuda()).to_vector<float>() ==
        std::vector<float>(5, 2.0f));
  pool_trim(Device::cuda());
  CHECK(pool_stats(Device::cuda()).held == 0);
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
