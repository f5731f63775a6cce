// gather_rows and gather_normalise on the GPU: from a data set on the device to a batch.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

std::vector<std::int64_t> random_indices(std::int64_t count, std::int64_t rows) {
  Numbers numbers(4);
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (std::int64_t& index : all) {
    index = numbers.integer(0, rows - 1);
  }
  return all;
}

std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  const Tensor here = tensor.to(Device::cpu());
  std::vector<std::uint8_t> all(here.bytes());
  if (!all.empty()) {
    std::memcpy(all.data(), here.address(), all.size());
  }
  return all;
}

// Rows of `columns` elements behind `shift` others.
std::string wrong_rows(DType dtype, std::int64_t columns, std::int64_t count, std::int64_t shift) {
  constexpr std::int64_t rows = 37;
  Numbers numbers(1);
  const Tensor all =
      random_integers<std::int32_t>({shift + rows * columns}, numbers, 0, 200).to(dtype);
  const auto part = [&](const Tensor& whole) {
    return whole.view_rows(shift, shift + rows * columns).reshape({rows, columns});
  };
  const Tensor indices = Tensor::from(random_indices(count, rows), {count});
  Tensor wanted = Tensor::zeros({count, columns}, dtype);
  ops::gather_rows(part(all), indices, wanted);
  constexpr std::int64_t guards = 17;
  Tensor room = Tensor::full({shift + count * columns + guards}, 99, dtype, Device::cuda());
  Tensor y = room.view_rows(shift, shift + count * columns).reshape({count, columns});
  ops::gather_rows(part(all.to(Device::cuda())), indices.to(Device::cuda()), y);
  Tensor around = Tensor::full(room.shape(), 99, dtype);
  around.view_rows(shift, shift + count * columns).reshape({count, columns}).copy_from(wanted);
  return bytes_of(room) == bytes_of(around) ? "" : "other bytes";
}

TEST_CASE("CUDA: rows of any type are picked by index") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::int64,
                            DType::int32, DType::uint8}) {
    for (const std::int64_t columns : {0, 1, 2, 3, 4, 8, 15, 16, 64, 65, 784}) {
      for (const std::int64_t count : {0, 1, 7, 130}) {
        for (const std::int64_t shift : {0, 1, 4}) {
          INFO(count, " rows of ", columns, " x ", dtype, ", shift ", shift);
          CHECK(wrong_rows(dtype, columns, count, shift) == "");
        }
      }
    }
  }
  CHECK(wrong_rows(DType::uint8, 1, 70001, 0) == "");
  CHECK(wrong_rows(DType::int64, 1, 5000, 0) == "");
}

template <class T>
std::string wrong_normalised(std::int64_t columns, std::int64_t count, std::int64_t byte_shift,
                             std::int64_t shift, const ops::NormaliseArgs& args) {
  constexpr std::int64_t rows = 29;
  Numbers numbers(1);
  const Tensor all = random_integers<std::uint8_t>({byte_shift + rows * columns}, numbers, 0, 255);
  const auto part = [&](const Tensor& whole) {
    return whole.view_rows(byte_shift, byte_shift + rows * columns).reshape({rows, columns});
  };
  const Tensor indices = Tensor::from(random_indices(count, rows), {count});
  Tensor wanted = Tensor::zeros({count, columns}, DType::float64);
  ops::gather_normalise(part(all), indices, wanted, args);
  Placed<T> y({count, columns}, shift);
  ops::gather_normalise(part(all.to(Device::cuda())), indices.to(Device::cuda()), y.tensor, args);
  return off(y.values(), wanted.to_vector<double>(), 2) + y.damage();
}

TEST_CASE_TEMPLATE("CUDA: bytes become (x / 255 - mean) / std", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const ops::NormaliseArgs& args :
       {ops::NormaliseArgs{}, ops::NormaliseArgs{.mean = 0.1307, .std = 0.3081},
        ops::NormaliseArgs{.mean = 0.5, .std = 0.5}, ops::NormaliseArgs{.mean = 0.4, .std = 2}}) {
    CAPTURE(args.mean);
    for (const std::int64_t columns : {0, 1, 3, 4, 8, 12, 16, 17, 784}) {
      for (const std::int64_t count : {0, 1, 33}) {
        CAPTURE(columns);
        CAPTURE(count);
        CHECK(wrong_normalised<T>(columns, count, 0, 0, args) == "");
        CHECK(wrong_normalised<T>(columns, count, 1, 0, args) == "");
        CHECK(wrong_normalised<T>(columns, count, 4, 0, args) == "");
        CHECK(wrong_normalised<T>(columns, count, 8, 1, args) == "");
      }
    }
  }
}

}  // namespace
}  // namespace sinter::on_device
