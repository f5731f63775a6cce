// Training a model whose ops the device has no kernels for: eagerly, and said once.
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/child.h"
#include <sinter/sinter.h>

using namespace sinter;

TEST_CASE("child: train a convolution net on a device that has no kernels" * doctest::skip()) {
  REQUIRE(Graph::can_record(Device::fake()));
  Sequential model{Conv2d{1, 2, 3}, MaxPool2d{2}, Flatten{}, Linear{8, 2}};
  model.to(Device::fake());
  SGD optimizer{model.parameters(), {.lr = 0.01}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  const TensorDataset data{Tensor::full({12, 1, 6, 6}, 1), Tensor::zeros({12}, DType::int64)};
  for (int run = 0; run < 2; ++run) {
    const auto reports = trainer.fit(data, {.epochs = 2, .batch_size = 5, .progress = false});
    CHECK(reports.back().loss < reports.front().loss);
  }
  CHECK(optimizer.steps() == 2 * 2 * 3);
}

TEST_CASE("a model that falls back is trained eagerly, and the log says so once") {
  const ChildOutput out = run_child(
      "env -u SINTER_LOG", "child: train a convolution net on a device that has no kernels");
  CAPTURE(out.text);
  CHECK(out.passed);
  for (const char* op :
       {"conv2d_forward", "conv2d_backward_weight", "max_pool2d_forward", "max_pool2d_backward"}) {
    CHECK(out.count(std::string("warning: ") + op + ": no kernel for fake") == 1);
  }
  // The images need no gradient.
  CHECK_FALSE(out.says("conv2d_backward_input"));
  CHECK(out.count("CapturedStep: steps run eagerly, not from a graph: an op has no kernel") == 1);
}
