// The gradients of a model as it is, beside those in float64 on the CPU.
#include <cmath>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include <sinter/autograd/autocast.h>
#include <sinter/autograd/function.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/embedding.h>
#include <sinter/layers/gradcheck.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/norms.h>
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;

Tensor labels() { return Tensor::from<std::int64_t>({0, 2, 1, 2, 0, 1}, {6}); }

Tensor inputs(DType dtype = DType::float32) { return tensor({6, 2, 2}, 2.0, 3, dtype); }

Sequential model_with_dropout() {
  manual_seed(5);
  return Sequential{Flatten{},      Linear{4, 8}, GELU{.drop_p = 0.25}, LayerNorm{8}, Linear{8, 6},
                    BatchNorm1d{6}, SiLU{},       Dropout{.p = 0.25},   Linear{6, 3}};
}

TEST_CASE("one weight and one bias under a squared error, whose gradients are known") {
  Sequential model{Linear{1, 1}};
  const double w = model.parameters()[0].value().item(), b = model.parameters()[1].value().item();
  const GradientComparison report = compare_model_gradient(model, Tensor::full({1, 1}, 3.0),
                                                           Tensor::full({1, 1}, 0.5), MSELoss{});
  CHECK_MESSAGE(report.passed, report.worst);
  REQUIRE(report.parameters.size() == 2);
  CHECK(report.parameters[0].name == "0.weight");
  CHECK(report.parameters[0].expected == doctest::Approx(2 * (3 * w + b - 0.5) * 3).epsilon(1e-12));
  CHECK(report.parameters[1].expected == doctest::Approx(2 * (3 * w + b - 0.5)).epsilon(1e-12));
  CHECK(report.parameters[1].gradient ==
        doctest::Approx(report.parameters[1].expected).epsilon(1e-5));
}

TEST_CASE("float32, with dropout on, under the same masks") {
  Sequential model = model_with_dropout();
  model.generator()->set_state(4, 1);
  const GradientComparison report =
      compare_model_gradient(model, inputs(), labels(), CrossEntropyLoss{});
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(report.tolerance == 1e-4);
  CHECK(report.parameters.size() == model.parameters().size());
  CHECK(report.parameters[0].error > 0);  // it is float32, not the reference once more
  CHECK(contains(report.worst, "element"));
  model.eval();
  CHECK(compare_model_gradient(model, inputs(), labels(), CrossEntropyLoss{}));
}

TEST_CASE("16-bit models, and a float32 model under Autocast") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    Sequential model = model_with_dropout();
    {
      const Autocast scope(dtype);
      const GradientComparison mixed =
          compare_model_gradient(model, inputs(), labels(), CrossEntropyLoss{});
      CHECK_MESSAGE(mixed.passed, mixed.worst);
      CHECK(mixed.tolerance > 1e-4);
      CHECK(mixed.parameters[0].error > 1e-6);  // it was under the scope
    }
    model.to(dtype);
    const GradientComparison report =
        compare_model_gradient(model, inputs(dtype), labels(), CrossEntropyLoss{});
    CHECK_MESSAGE(report.passed, report.worst);
  }
}

TEST_CASE("the model is left alone") {
  Sequential model = model_with_dropout();
  const Parameters parameters = model.parameters();
  model.generator()->set_state(4, 1);
  const std::vector<double> weight = doubles(parameters[0].value());
  const std::vector<double> mean = doubles(model.buffers()[0].value);
  CHECK(compare_model_gradient(model, inputs(), labels(), CrossEntropyLoss{}));
  CHECK(model.parameters()[0].state == parameters[0].state);
  CHECK(doubles(parameters[0].value()) == weight);
  CHECK(doubles(model.buffers()[0].value) == mean);
  CHECK_FALSE(has_gradient(parameters[0]));
  CHECK(model.generator()->step() == 4);
  CHECK(model.generator()->next_call() == 1);
}

// As a kernel would be that is wrong for one type: by a thousandth.
struct WrongInFloat32 : Module {
  Tensor forward(const Tensor& x) override {
    Tensor y = detached(x) * 2.0;
    const double factor = x.dtype() == DType::float32 ? 2.002 : 2.0;
    record("wrong", {x}, y, [factor](Backward& b) { b.give(0, b.grad() * factor); });
    return y;
  }
};

TEST_CASE("a wrong derivative is found, and told below which layer it is") {
  const GradientComparison report =
      compare_model_gradient(Sequential{Flatten{}, Linear{4, 4}, WrongInFloat32{}, Linear{4, 3}},
                             inputs(), labels(), CrossEntropyLoss{});
  CHECK_FALSE(report);
  REQUIRE(report.parameters.size() == 4);
  CHECK(report.parameters[0].error == doctest::Approx(0.001).epsilon(0.01));
  CHECK(report.parameters[1].error > 1e-4);
  CHECK(report.parameters[2].error < 1e-5);  // above it all is well
  CHECK(report.parameters[3].error < 1e-5);
  CHECK((contains(report.worst, "1.weight, element ") || contains(report.worst, "1.bias, ")));
  CHECK(contains(report.worst, "instead of"));
  const GradientComparison lenient =
      compare_model_gradient(Sequential{Flatten{}, Linear{4, 4}, WrongInFloat32{}, Linear{4, 3}},
                             inputs(), labels(), CrossEntropyLoss{}, 0.01);
  CHECK(lenient);
}

TEST_CASE("a gradient that is no number does not pass") {
  Sequential model{Flatten{}, Linear{4, 3}};
  Tensor weight = model.parameters()[0].value().detach();
  weight.fill(NAN);
  CHECK_FALSE(compare_model_gradient(model, inputs(), labels(), CrossEntropyLoss{}));
}

TEST_CASE("indices as inputs, frozen parameters and a loss of one's own") {
  Sequential model{Embedding{7, 4}, Flatten{}, Linear{8, 3}};
  const Tensor indices = Tensor::from<std::int64_t>({0, 6, 3, 3, 1, 2}, {3, 2});
  const auto loss = [](const Tensor& y, const Tensor& target) { return mean((y - target) * y); };
  const Tensor target = tensor({3, 3}, 1.0, 4, DType::float32);
  CHECK(compare_model_gradient(model, indices, target, loss).parameters.size() == 3);
  CHECK(check_model_gradient(model, indices, target, loss));
  model.parameters()[1].set_trainable(false);
  const GradientComparison report = compare_model_gradient(model, indices, target, loss);
  CHECK(report);
  CHECK(report.parameters.size() == 2);
  CHECK(report.parameters[1].name == "2.bias");
  CHECK(contains(error_of([&] { compare_model_gradient(model, indices, target, loss, -1); }),
                 "tolerance"));
  for (const NamedParameter& parameter : model.parameters()) {
    parameter.set_trainable(false);
  }
  CHECK(contains(error_of([&] { compare_model_gradient(model, indices, target, loss); }),
                 "no parameter that is trained"));
}

TEST_CASE("on a device whose ops fall back to the CPU") {
  const QuietFallback quiet;
  Sequential model = model_with_dropout();
  model.to(Device::fake());
  const GradientComparison report = compare_model_gradient(
      model, inputs().to(Device::fake()), labels().to(Device::fake()), CrossEntropyLoss{});
  CHECK_MESSAGE(report.passed, report.worst);
}

TEST_CASE("CUDA: the gradients of a whole model are the CPU's float64 ones, in every type") {
  if (!has_gpu()) {
    return;
  }
  Sequential model = model_with_dropout();
  model.to(Device::cuda());
  const Tensor y = labels().to(Device::cuda());
  const auto compare = [&](DType dtype) {
    model.to(dtype);
    return compare_model_gradient(model, inputs(dtype).to(Device::cuda()), y, CrossEntropyLoss{});
  };
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const GradientComparison report = compare(dtype);
    CHECK_MESSAGE(report.passed, report.worst);
  }
  model = model_with_dropout();
  model.to(Device::cuda());
  const ExactProducts exact;
  const GradientComparison report = compare(DType::float32);
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(report.tolerance == 1e-4);
}

}  // namespace
}  // namespace sinter
