// Layers and functions on CUDA tensors: the code that runs on the CPU, unchanged, with its results.
#include <vector>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;

Sequential build() {
  manual_seed(4);
  Sequential net{Flatten{},
                 Linear{12, 33},
                 SiLU{.drop_p = 0.25},
                 Linear{33, 20},
                 LeakyReLU{.act = {.negative_slope = 0.2}},
                 Dropout{.p = 0.5},
                 Linear{20, 5}};
  net.parameters();  // drawn here, so that each model takes the seed itself
  return net;
}

TEST_CASE("CUDA: a model computes what it computes on the CPU, in train and in eval mode") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const ExactProducts exact;
  const Tensor x = tensor({7, 3, 4}, 1, 1, DType::float32);
  for (const bool training : {true, false}) {
    CAPTURE(training);
    Sequential here = build();
    Sequential there = build();
    there.to(Device::cuda());
    here.train(training);
    there.train(training);
    for (int call = 0; call < 3; ++call) {  // each with masks of its own
      const Tensor y = there(x.to(Device::cuda()));
      CHECK(y.device() == Device::cuda());
      CHECK(largest_error(y, here(x)) < 1e-5);
    }
    // There and back: the same bytes.
    there.to(Device::cpu());
    const Parameters moved = there.parameters();
    const Parameters stayed = here.parameters();
    for (std::size_t i = 0; i < stayed.size(); ++i) {
      CHECK(same(moved[i].value(), stayed[i].value()));
    }
  }
}

TEST_CASE("CUDA: two eval passes are bit-equal, two training passes differ") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const ExactProducts exact;
  Sequential net = build();
  net.to(Device::cuda());
  const Tensor x = tensor({7, 12}, 1, 1, DType::float32).to(Device::cuda());
  CHECK_FALSE(same(net(x), net(x)));
  net.eval();
  CHECK(same(net(x), net(x)));
}

TEST_CASE("CUDA: a dropout layer drops the CPU's elements in every type") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const ExactProducts exact;
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    const auto run = [dtype](Device device) {
      manual_seed(11);
      Sequential net{Dropout{.p = 0.3}, Dropout{.p = 0.2}};
      return net(Tensor::full({123, 67}, 1, dtype, device));
    };
    const std::vector<double> there = doubles(run(Device::cuda()));
    const std::vector<double> here = doubles(run(Device::cpu()));
    int differing = 0;
    int dropped = 0;
    for (std::size_t i = 0; i < here.size(); ++i) {
      differing += (there[i] == 0) != (here[i] == 0) ? 1 : 0;
      dropped += here[i] == 0 ? 1 : 0;
    }
    CHECK(differing == 0);
    CHECK(dropped > 3000);  // 0.44 of 8,241
    CHECK(dropped < 4300);
  }
}

TEST_CASE("CUDA: a model on one device and a batch on the other is an error that names both") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const ExactProducts exact;
  const Tensor x = tensor({7, 12}, 1, 1, DType::float32);
  Sequential net = build();
  net.to(Device::cuda());
  check_error([&] { net(x); }, {"cpu", "cuda:0", "to(device)"});
  CHECK(net(x.to(Device::cuda())).shape() == Shape{7, 5});
  Sequential stays = build();
  check_error([&] { stays(x.to(Device::cuda())); }, {"cpu", "cuda:0", "to(device)"});
  CHECK(stays(x).shape() == Shape{7, 5});
}

}  // namespace
}  // namespace sinter
