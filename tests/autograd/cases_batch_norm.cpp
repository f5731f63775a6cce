// Gradient checks of batch norms: through a batch's statistics and beside running ones.
#include <memory>

#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/runtime/text.h>

namespace sinter::testing {
namespace {

Tensor weighted(const Tensor& y) { return y * tensor(y.shape(), 2.0, 77); }

RunningStatistics running_of(std::int64_t channels) {
  const Tensor spread = tensor({channels}, 0.5, 9);
  return {tensor({channels}, 1.0, 8), spread * spread + 0.5, Tensor::zeros({}, DType::int64)};
}

}  // namespace

GradientCases batch_norm_cases() {
  const std::string function =
      "batch_norm(Tensor, RunningStatistics, Tensor, Tensor, bool, std::optional<double>, double, "
      "BatchNormTail)";
  GradientCases cases;
  const auto add = [&](const std::string& name, std::function<Tensor(Inputs)> f,
                       std::vector<Tensor> inputs) {
    cases.push_back({function, name, std::move(f), std::move(inputs)});
  };
  for (const bool training : {true, false}) {
    for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 5}, Shape{3, 1, 2, 3}, Shape{1, 3, 7}}) {
      const std::string of = text("of ", shape, training ? "" : ", running");
      const Shape channels{shape[1]};
      const RunningStatistics running = training ? RunningStatistics{} : running_of(shape[1]);
      const Tensor weight = tensor(channels, 2.0, 5), bias = tensor(channels, 2.0, 6);
      add(of,
          [=](Inputs x) {
            return weighted(batch_norm(x[0] * x[0], running, x[1], x[2], training, 0.1, 1e-3));
          },
          {tensor(shape), weight, bias});
      add(of + ", no weight",
          [=](Inputs x) { return weighted(batch_norm(x[0], running, {}, {}, training)); },
          {tensor(shape)});
      add(of + ", bias alone, residual",
          [=](Inputs x) {
            return weighted(
                batch_norm(x[0], running, {}, x[1], training, 0.1, 1e-5, {.residual = x[2]}));
          },
          {tensor(shape), bias, tensor(shape, 2.0, 7)});
      add(of + ", x as residual, one leaf as weight and bias",
          [=](Inputs x) {
            return weighted(batch_norm(x[0], running, x[1], x[1], training, 0.1, 1e-5,
                                       {.residual = x[0], .act = math::Tanh{}}));
          },
          {tensor(shape), weight});
      add(of + ", parameters alone",
          [=](Inputs x) {
            return weighted(batch_norm(tensor(shape), running, x[0], x[1], training, 0.1, 1e-5,
                                       {.act = math::SiLU{}}));
          },
          {weight, bias});
    }
  }
  add("batch of one, running",
      [running = running_of(4)](Inputs x) { return weighted(batch_norm(x[0], running)); },
      {tensor({1, 4})});
  math::for_each_activation([&]<class A>() {
    for (const double p : {0.0, 0.4}) {
      add(text(std::string(A::name), ", dropout ", p),
          [p](Inputs x) {
            const BatchNormTail tail{
                .residual = x[3],
                .act = A{},
                .dropout = {.p = p, .generator = std::make_shared<Generator>(3)}};
            return weighted(batch_norm(x[0], {}, x[1], x[2], true, 0.1, 1e-3, tail));
          },
          {tensor({3, 2, 5}), tensor({2}, 2.0, 5), tensor({2}, 2.0, 6), tensor({3, 2, 5}, 2.0, 7)});
    }
  });
  add("dropout alone",
      [](Inputs x) {
        return weighted(
            batch_norm(x[0], {}, {}, {}, true, 0.1, 1e-3,
                       {.dropout = {.p = 0.4, .generator = std::make_shared<Generator>(3)}}));
      },
      {tensor({5, 14})});
  return cases;
}

}  // namespace sinter::testing
