// Bad input on the GPU: the same sentences as on the CPU, as exceptions, and the next call in the
// same process works.
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>

namespace sinter {
namespace {

using namespace testing;

// A loss and its gradient, right on both devices.
void check_device_works() {
  const auto run = [](Device device) {
    Tensor logits = tensor({4, 3}, 2.0, 5, DType::float32).to(device);
    logits.set_requires_grad();
    const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 2, 1, 1}, {4}, device);
    Tape tape;
    const Tensor loss = cross_entropy(relu(logits), labels);
    tape.backward(loss);
    std::vector<double> all = doubles(logits.grad());
    all.push_back(loss.item());
    return all;
  };
  CHECK(largest_error(run(Device::cuda()), run(Device::cpu())) < 1e-6);
}

template <class Label>
void check_labels() {
  const auto loss = [](const std::vector<Label>& labels) {
    Tensor logits = tensor({4, 10}, 2.0, 5, DType::float32).to(Device::cuda());
    logits.set_requires_grad();
    const Tensor there = Tensor::from(labels, {4}, Device::cuda());
    Tape tape;
    return cross_entropy(logits, there).item();
  };
  check_error(
      [&] {
        loss({1, 2, 10, 3});
      },
      {"label 10", "row 2", "10 classes", "labels start at 0"});
  check_device_works();
  check_error([&] { loss({0, 2, 3, 17}); }, {"label 17", "row 3", "10 classes"});
  check_device_works();
  if constexpr (std::is_signed_v<Label>) {
    check_error([&] { loss({-1, 2, 3, 4}); }, {"label -1", "row 0", "10 classes"});
    check_device_works();
  }
  CHECK(std::isfinite(loss({0, 9, 3, 4})));
}

TEST_CASE("CUDA: a label out of range is an error that names row and value, and no more") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  check_labels<std::int64_t>();
  check_labels<std::int32_t>();
  check_labels<std::uint8_t>();
}

TEST_CASE("CUDA: one-hot and float labels are errors that say what is wanted") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const Tensor logits = tensor({2, 3}, 1, 1, DType::float32).to(Device::cuda());
  const Tensor one_hot =
      Tensor::from(std::vector<std::int64_t>{0, 1, 0, 1, 0, 0}, {2, 3}, Device::cuda());
  check_error([&] { cross_entropy(logits, one_hot); }, {"one-hot", "class numbers"});
  check_error([&] { cross_entropy(logits, Tensor::full({2}, 1, DType::float32, Device::cuda())); },
              {"class numbers", "float32"});
  check_device_works();
}

TEST_CASE("CUDA: tensors of two devices in one call are one sentence that names both") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const Tensor here = tensor({2, 3}, 1, 1, DType::float32);
  const Tensor there = here.to(Device::cuda());
  const Tensor weight = tensor({4, 3}, 1, 2, DType::float32);
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 2}, {2});
  const auto check = [](auto call) { check_error(call, {"cpu", "cuda:0", "to(device)"}); };
  check([&] { here + there; });
  check([&] { there* here; });
  check([&] { linear(here, weight.to(Device::cuda())); });
  check([&] { linear(there, weight); });
  check([&] { cross_entropy(there, labels); });
  check([&] { mse_loss(there, here); });
  check([&] { matmul(there, here, false, true); });
  check_device_works();
}

TEST_CASE("CUDA: sizes that no memory holds are errors, never a wrap") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const auto make = [](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, Device::cuda());
  };
  // 343 * 10^12 elements, more bytes than there are; then bytes, then elements beyond 64 bits.
  check_error([&] { make({70000, 70000, 70000}, DType::float32); }, {"memory"});
  check_error([&] { make({70000, 70000, 70000, 20000}, DType::float32); }, {"70000"});
  check_error([&] { make({70000, 70000, 70000, 70000}, DType::float32); }, {"70000"});
  check_error(
      [&] {
        make({std::int64_t{1} << 32, std::int64_t{1} << 32}, DType::uint8);
      },
      {"4294967296"});
  check_device_works();
}

TEST_CASE("CUDA: a dropout of impossible probability or without a generator is an error") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const Tensor x = tensor({2, 3}, 1, 1, DType::float32).to(Device::cuda());
  check_error([&] { dropout(x, {.p = 1.5}); }, {"[0, 1]", "1.5"});
  check_error([&] { relu(x, {}, {.p = 0.5}); }, {"generator"});
  check_error([&] { celu(x, {.alpha = 0}); }, {"celu", "alpha"});
  check_error([&] { relu(Tensor::full({2}, 1, DType::int32, Device::cuda())); }, {"int32"});
  check_device_works();
}

}  // namespace
}  // namespace sinter
