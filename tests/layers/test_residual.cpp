// Residual blocks: what they compute, their names and gradients, and what does not fit.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include <sinter/sinter.h>

namespace sinter {
namespace {

using namespace testing;

TEST_CASE("a residual block adds its input to what its layers make of it") {
  manual_seed(5);
  Linear linear{4, 4};
  const Tensor x = tensor({3, 4}, 2.0, 1, DType::float32);
  Residual block{linear, Tanh{}};
  CHECK(block.text() == "residual(linear(4, 4) -> tanh)");
  const auto parameters = block.parameters();
  CHECK(parameters[0].name == "body.0.weight");
  CHECK(parameters[1].name == "body.0.bias");
  CHECK(same(block(x), x + block.body()(x)));
  CHECK(same(Residual{Tanh{}}(x), x + tanh(x)));
  CHECK(Residual{Sequential{Tanh{}, ReLU{}}}.text() == "residual(tanh -> relu)");
  CHECK(Residual{Residual{Tanh{}}, ReLU{}}.text() == "residual(residual(tanh) -> relu)");

  Residual copy = block;
  Tensor weight = copy.parameters()[0].value().detach();
  weight.fill(0);
  CHECK_FALSE(same(copy(x), block(x)));
}

TEST_CASE("shapes that do not add up are one sentence") {
  Sequential model{Tanh{}, Residual{Linear{4, 3}}};
  check_error(
      [&] {
        model(tensor({2, 4}, 2.0, 1, DType::float32));
      },
      {"layer 1 of the model", "residual(linear(4, 3))", "[2, 3]", "[2, 4]", "one shape"});
  // What broadcasting would add is refused too.
  check_error(
      [&] {
        Residual{Linear{4, 1}}(tensor({2, 4}, 2.0, 1, DType::float32));
      },
      {"[2, 1]", "[2, 4]"});
}

TEST_CASE("gradients of residual blocks, and dropout in train mode only") {
  manual_seed(5);
  Sequential model = Sequential::parse(
      "linear(5, 6) -> residual(layer_norm(6) -> linear(6, 8) -> swiglu(drop_p=0.2) -> linear(4, "
      "6)) "
      "-> residual(residual(tanh)) -> linear(6, 3)");
  CHECK(model.parameters()[2].name == "1.body.0.weight");
  CHECK(model.parameters()[4].name == "1.body.1.weight");
  CHECK(model.parameters()[6].name == "1.body.4.weight");  // behind swiglu's dropout
  const Tensor labels = Tensor::from<std::int64_t>({2, 0, 1}, {3});
  const auto report = check_model_gradient(model, tensor({3, 5}), labels, CrossEntropyLoss{});
  CHECK_MESSAGE(report.passed, report.worst);
  model.eval();
  const Tensor x = tensor({3, 5}, 2.0, 1, DType::float32);
  CHECK(same(model(x), model(x)));
}

TEST_CASE("CUDA: residual blocks compute what they compute on the CPU") {
  if (!has_gpu()) {
    return;
  }
  const ExactProducts exact;
  manual_seed(5);
  Sequential model{Linear{5, 16}, Residual{RMSNorm{16}, Linear{16, 16}, GELU{}}, Linear{16, 3}};
  const Tensor x = tensor({7, 5}, 2.0, 1, DType::float32);
  const auto on_cpu = doubles(model(x));
  model.to(Device::cuda());
  CHECK(largest_error(doubles(model(x.to(Device::cuda())).to(Device::cpu())), on_cpu) < 1e-5);
}

}  // namespace
}  // namespace sinter
