// The gradient check of whole models.
#include <cmath>

#include <doctest/doctest.h>

#include "../autograd/activation_settings.h"
#include "../autograd/values.h"
#include <sinter/autograd/function.h>
#include <sinter/layers/gradcheck.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;

const Tensor& labels() {
  static const Tensor all = Tensor::from<std::int64_t>({0, 2, 1, 2, 0, 1}, {6});
  return all;
}

Tensor inputs(DType dtype = DType::float32) { return tensor({6, 2, 2}, 2.0, 3, dtype); }

template <class A>
void check_models() {
  CAPTURE(A::name);
  const CrossEntropyLoss entropy{{.label_smoothing = 0.1}};
  for (const A& act : settings<A>()) {
    const Sequential model{Flatten{},
                           Linear{4, 8},
                           ActivationLayer<A>{.act = act, .drop_p = 0.25},
                           Linear{8, 6},
                           ActivationLayer<A>{.act = act},
                           Dropout{.p = 0.25},
                           Linear{6, 3}};
    const GradCheckReport classes = check_model_gradient(model, inputs(), labels(), entropy);
    CHECK_MESSAGE(classes.passed, classes.worst);
    CHECK(classes.checked == 4 * 8 + 8 + 8 * 6 + 6 + 6 * 3 + 3);
    const Tensor target = tensor({6, 3}, 1.0, 4, DType::float32);
    const GradCheckReport values = check_model_gradient(model, inputs(), target, MSELoss{});
    CHECK_MESSAGE(values.passed, values.worst);
  }
}

TEST_CASE("models of every activation, with dropout on, under both losses") {
  math::for_each_activation([]<class A>() { check_models<A>(); });
}

TEST_CASE("the model that is checked is left alone") {
  Sequential model{Flatten{}, Linear{4, 8}, ReLU{.drop_p = 0.25}, Linear{8, 3}};
  const Parameters parameters = model.parameters();
  model.generator()->set_state(4, 1);
  std::vector<std::vector<double>> before;
  for (const NamedParameter& parameter : parameters) {
    before.push_back(doubles(parameter.value()));
  }
  const Tensor x = inputs();
  const std::vector<double> input = doubles(x);
  CHECK(check_model_gradient(model, x, labels(), CrossEntropyLoss{}));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(model.parameters()[i].state == parameters[i].state);
    CHECK(parameters[i].value().dtype() == DType::float32);
    CHECK(doubles(parameters[i].value()) == before[i]);
    CHECK_FALSE(parameters[i].grad().defined());
  }
  CHECK(model.generator()->step() == 4);
  CHECK(model.generator()->next_call() == 1);
  CHECK(model.training());
  CHECK(doubles(x) == input);
  CHECK(x.dtype() == DType::float32);
  CHECK(Tape::current() == nullptr);
}

TEST_CASE("checking a model that is not drawn yet does not change what it will draw") {
  const auto first_weight = [](bool checked) {
    manual_seed(7);
    Sequential model{Flatten{}, Linear{4, 3}};
    if (checked) {
      CHECK(check_model_gradient(model, inputs(), labels(), CrossEntropyLoss{}));
    }
    return doubles(model.parameters()[0].value());
  };
  CHECK(first_weight(true) == first_weight(false));
}

TEST_CASE("eval mode is checked without dropout, and another device on the CPU") {
  const QuietFallback quiet;
  Sequential model{Flatten{}, Linear{4, 8}, ReLU{.drop_p = 1}, Linear{8, 3}};
  model.eval();
  const GradCheckReport report =
      check_model_gradient(model, inputs(), labels(), CrossEntropyLoss{});
  CHECK_MESSAGE(report.passed, report.worst);
  model.to(Device::fake());
  const std::int64_t fallbacks = fallback_count();
  CHECK(check_model_gradient(model, inputs().to(Device::fake()), labels(), CrossEntropyLoss{}));
  CHECK(fallback_count() == fallbacks);
  CHECK(model.parameters()[0].value().device() == Device::fake());
}

// Forgets a factor in its backward, by 1e-4.
struct Wrong : Module {
  Tensor forward(const Tensor& x) override {
    Tensor y = detached(x) * 2.0;
    record("wrong", {x}, y, [](Backward& b) { b.give(0, b.grad() * 2.0002); });
    return y;
  }
};

// Multiplies with weights whose gradient it does not give.
struct Forgetful : Module {
  Parameter weight{{3}, {-1.0, 1.0}};
  void members(Members& m) override { m.parameter("weight", weight); }
  Tensor forward(const Tensor& x) override { return x * weight.value().detach(); }
};

TEST_CASE("a wrong layer in a model is caught, in what it is wrong about") {
  const auto report_of = [](const Sequential& model) {
    return check_model_gradient(model, inputs(), labels(), CrossEntropyLoss{});
  };
  const GradCheckReport below =
      report_of(Sequential{Flatten{}, Linear{4, 4}, Wrong{}, Linear{4, 3}});
  CHECK_FALSE(below);
  CHECK(below.worst_error > 1e-6);
  CHECK(report_of(Sequential{Wrong{}, Flatten{}, Linear{4, 3}}));  // no parameter is below it
  const GradCheckReport forgotten =
      report_of(Sequential{Flatten{}, Linear{4, 3, {.bias = false}}, Forgetful{}});
  CHECK_FALSE(forgotten);
  CHECK(contains(forgotten.worst, "input 1,"));  // parameters in order: the second
}

TEST_CASE("options are passed on") {
  const Sequential model{Flatten{}, Linear{4, 8}, Linear{8, 3}};
  CHECK(
      check_model_gradient(model, inputs(), labels(), CrossEntropyLoss{}, {.at_most = 2}).checked ==
      8);
}

TEST_CASE("losses as objects are the functions with their options") {
  const Tensor logits = tensor({6, 3});
  CHECK(same(CrossEntropyLoss{}(logits, labels()), cross_entropy(logits, labels())));
  CHECK(same(
      CrossEntropyLoss{{.reduction = Reduction::sum, .label_smoothing = 0.2}}(logits, labels()),
      cross_entropy(logits, labels(), {.reduction = Reduction::sum, .label_smoothing = 0.2})));
  const Tensor target = tensor({6, 3}, 1.0, 2);
  CHECK(same(MSELoss{}(logits, target), mse_loss(logits, target)));
  CHECK(same(MSELoss{{.reduction = Reduction::none}}(logits, target),
             mse_loss(logits, target, {.reduction = Reduction::none})));
}

}  // namespace
}  // namespace sinter
