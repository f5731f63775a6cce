// Labels and indices out of range on the GPU: the sentence that the CPU has for them, whichever
// block met them, and the next call works.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../../runtime/sentence.h"
#include "losses.h"

namespace sinter::on_device {
namespace {

std::string label_sentence_on(Device device, const Tensor& labels, std::int64_t classes,
                              ops::Reduction reduction) {
  const Shape shape{labels.numel(), classes};
  const bool each = reduction == ops::Reduction::none;
  Tensor loss = Tensor::zeros(each ? labels.shape() : Shape{}, DType::float32, device);
  Tensor grad = Tensor::zeros(shape, DType::float32, device);
  return sentence_of([&] {
    ops::cross_entropy(Tensor::zeros(shape, DType::float32, device), labels.to(device), Tensor{},
                       loss, grad, {.reduction = reduction});
  });
}

void check_labels(const Tensor& labels, std::int64_t classes) {
  for (const auto reduction : {ops::Reduction::mean, ops::Reduction::sum, ops::Reduction::none}) {
    const std::string wanted = label_sentence_on(Device::cpu(), labels, classes, reduction);
    CHECK(label_sentence_on(Device::cuda(), labels, classes, reduction) == wanted);
    CHECK(label_sentence_on(Device::cuda(), Tensor::zeros({3}, DType::int64), 2, reduction) ==
          "<nothing thrown>");
  }
}

Tensor integers(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST_CASE("CUDA: a label out of range is named as on the CPU") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  check_labels(integers({0, 1, 10, 11}), 10);
  check_labels(integers({3, -1}), 10);
  check_labels(integers({std::int64_t{1} << 32}), 10);
  check_labels(integers({1, 2}).to(DType::uint8), 2);
  check_labels(integers({1, -7}).to(DType::int32), 2);
  check_labels(integers({0}), 0);
  check_labels(integers({0, -100, 9}), 10);
  check_labels(integers({1, 2, 3, 10}), 10);  // counted from 1
  check_labels(integers({1, 2, 3, 10}).to(DType::uint8), 10);
  for (const std::size_t rows : {130u, 1500u, 9000u}) {  // many blocks, many rows of a block
    std::vector<std::int64_t> labels(rows, 1);
    for (std::size_t row = rows / 3; row < rows; row += 7) {
      labels[row] = 5 + static_cast<std::int64_t>(row);
    }
    check_labels(integers(labels), 3);
  }
  check_labels(integers({7, 5000, 6000}), 3000);  // a block for each row
}

template <class Gather>
void check_indices(Gather gather) {
  const auto on = [&](Device device, const Tensor& indices, std::int64_t rows) {
    return sentence_of([&] { gather(device, indices.to(device), rows); });
  };
  const auto check = [&](const Tensor& indices, std::int64_t rows) {
    const std::string wanted = on(Device::cpu(), indices, rows);
    CHECK(on(Device::cuda(), indices, rows) == wanted);
    CHECK(on(Device::cuda(), integers({0, 1}), 3) == "<nothing thrown>");
  };
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    check(integers({0, 2, bad, 1}), 3);
  }
  check(integers({0}), 0);
  std::vector<std::int64_t> many(9001, 2);
  check(integers(many), 3);
  for (std::size_t i = 4321; i < many.size(); i += 500) {
    many[i] = static_cast<std::int64_t>(i);
  }
  check(integers(many), 3);
  many.assign(9001, 7);  // all of them
  check(integers(many), 3);
}

TEST_CASE("CUDA: an index that is not there is named as on the CPU") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  check_indices([](Device device, const Tensor& indices, std::int64_t rows) {
    Tensor y = Tensor::zeros({indices.numel(), 2}, DType::float32, device);
    ops::gather_rows(Tensor::zeros({rows, 2}, DType::float32, device), indices, y);
  });
  check_indices([](Device device, const Tensor& indices, std::int64_t rows) {
    Tensor y = Tensor::zeros({indices.numel(), 8}, DType::float32, device);
    ops::gather_normalise(Tensor::zeros({rows, 8}, DType::uint8, device), indices, y, {});
  });
}

TEST_CASE("CUDA: rows of width 0 have indices all the same") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  Tensor y = Tensor::zeros({2, 0}, DType::float32, Device::cuda());
  const Tensor rows = Tensor::zeros({3, 0}, DType::float32, Device::cuda());
  check_refused(
      [&] {
        ops::gather_rows(rows, integers({1, 4}).to(Device::cuda()), y);
      },
      {"gather_rows", "index 4", "position 1", "[0, 3)"});
  ops::gather_rows(rows, integers({1, 2}).to(Device::cuda()), y);
}

}  // namespace
}  // namespace sinter::on_device
