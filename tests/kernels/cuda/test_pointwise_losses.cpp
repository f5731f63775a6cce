// Losses of elements and of log-probabilities on the GPU against the CPU's in float64.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

using ops::Reduction;

constexpr std::int64_t lengths[] = {0, 1, 2, 31, 33, 255, 257, 2047, 2049, 5000, 70001};

struct LossCase {
  const char* name;
  math::AnyLoss loss;
  double low, high;  ///< of targets
  double roundings;
};
const std::vector<LossCase> loss_cases{
    {"l1", math::AbsoluteError{}, -2, 2, 1},
    {"mse", math::SquaredError{}, -2, 2, 1},
    {"huber", math::Huber{0.7}, -2, 2, 1},
    {"smooth l1", math::SmoothAbsoluteError{0.7}, -2, 2, 1},
    {"smooth l1 without width", math::SmoothAbsoluteError{0}, -2, 2, 1},
    // A sum of up to three terms, of functions that are 2 ulp right.
    {"binary cross entropy", math::BinaryCrossEntropy{}, 0, 1, 16},
    {"kl", math::KLDivergence{}, 0, 1, 1},
    {"kl of logarithms", math::KLDivergence{true}, -3, 0, 1}};

template <class T>
std::string wrong(const LossCase& c, std::int64_t n, Reduction reduction, std::int64_t shift,
                  std::int64_t columns) {
  const std::vector<T> x = random_values<T>(n, 1, -2, 2);
  const std::vector<T> target = random_values<T>(n, 2, c.low, c.high);
  const std::vector<T> weight = random_values<T>(columns, 3, 0.5, 2);
  const Shape loss_shape = reduction == Reduction::none ? Shape{n} : Shape{};
  const ops::PointwiseLossArgs args(c.loss, reduction, n);
  Tensor wanted_loss = Tensor::zeros(loss_shape, DType::float64);
  Tensor wanted_grad = Tensor::zeros({n}, DType::float64);
  ops::pointwise_loss(in_float64(x, {n}), in_float64(target, {n}),
                      columns == 0 ? Tensor{} : in_float64(weight, {columns}), wanted_loss,
                      wanted_grad, args);
  const Placed<T> x_there(Tensor::from(x, {n}), shift);
  const Placed<T> target_there(Tensor::from(target, {n}), 2 * shift);
  const Tensor weight_there = columns == 0 ? Tensor{} : upload(weight);
  Placed<T> loss(loss_shape, shift);
  Placed<T> grad({n}, 3 * shift);
  Placed<T> alone(loss_shape, shift);
  Tensor none;
  ops::pointwise_loss(x_there.tensor, target_there.tensor, weight_there, loss.tensor, grad.tensor,
                      args);
  ops::pointwise_loss(x_there.tensor, target_there.tensor, weight_there, alone.tensor, none, args);
  // The two terms of a cross entropy's slope may cancel.
  const double beside = c.roundings > 1 ? 2 * args.scale : 0;
  return off(loss.values(), wanted_loss.to_vector<double>(), c.roundings) +
         off(grad.values(), wanted_grad.to_vector<double>(), c.roundings, beside) +
         unlike(alone.values(), loss.values()) + loss.damage() + grad.damage();
}

TEST_CASE_TEMPLATE("CUDA: losses of elements and their gradients", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const LossCase& c : loss_cases) {
    for (const std::int64_t n : lengths) {
      for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
        for (const std::int64_t shift : {0, 1}) {
          INFO(c.name, ", ", n, " elements, ", name_of(reduction), ", shift ", shift);
          if (std::is_same_v<T, float16> && reduction == Reduction::sum && n > 20000) {
            continue;
          }
          CHECK(wrong<T>(c, n, reduction, shift, 0) == "");
        }
      }
    }
  }
  const LossCase& entropy = loss_cases[5];
  for (const std::int64_t columns : {1, 7, 5000}) {
    CHECK(wrong<T>(entropy, 35000, Reduction::mean, 0, columns) == "");
  }
}

TEST_CASE("CUDA: losses where a logit is sure, and targets at their ends") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::vector<float> x{40, -40, 40, -40, 12, -12, 0, 3}, t{1, 0, 0, 1, 1, 0, 0, 1};
  for (const LossCase* c : {&loss_cases[5], &loss_cases[6]}) {
    const ops::PointwiseLossArgs each(c->loss, Reduction::none, 8);
    Tensor loss = poisoned<float>({8}), grad = poisoned<float>({8});
    Tensor wanted = Tensor::zeros({8}, DType::float64), slopes = Tensor::zeros({8}, DType::float64);
    ops::pointwise_loss(in_float64(x, {8}), in_float64(t, {8}), Tensor{}, wanted, slopes, each);
    ops::pointwise_loss(upload(x), upload(t), Tensor{}, loss, grad, each);
    CAPTURE(c->name);
    CHECK(off(download<float>(loss), wanted.to_vector<double>(), 8) == "");
    CHECK(off(download<float>(grad), slopes.to_vector<double>(), 8) == "");
  }
}

TEST_CASE("CUDA: the mean of large squares does not overflow in between, and NaN stays") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::vector<float> x{2e19f, 1, 1, 1, 1, 1, 1, 1};
  const ops::PointwiseLossArgs mean(math::SquaredError{}, Reduction::mean, 8);
  Tensor loss = poisoned<float>({});
  Tensor grad = poisoned<float>({8});
  ops::pointwise_loss(upload(x), filled<float>({8}, 1), Tensor{}, loss, grad, mean);
  CHECK(off(download<float>(loss), {4e38 / 8}, 4) == "");
  for (const LossCase& c : loss_cases) {
    CAPTURE(c.name);
    ops::pointwise_loss(filled<float>({8}, not_a_number), filled<float>({8}, 1), Tensor{}, loss,
                        grad, {c.loss, Reduction::mean, 8});
    CHECK(std::isnan(loss.item()));
    ops::pointwise_loss(filled<float>({8}, not_a_number), filled<float>({8}, 0), Tensor{}, loss,
                        grad, {c.loss, Reduction::mean, 8});
    CHECK(std::isnan(loss.item()));
  }
}

TEST_CASE_TEMPLATE("CUDA: negative log-probabilities of labels", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const std::int64_t rows : {0, 1, 33, 3001}) {
    for (const std::int64_t classes : {1, 7, 300}) {
      for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
        for (const bool weighted : {false, true}) {
          INFO(rows, " x ", classes, ", ", name_of(reduction), weighted ? ", weighted" : "");
          const std::vector<T> x = random_values<T>(rows * classes, 1, -3, 0);
          const std::vector<T> weight = random_values<T>(classes, 3, 0.5, 2);
          std::vector<std::int64_t> labels;
          for (std::int64_t row = 0; row < rows; ++row) {
            labels.push_back(row % 5 == 3 ? -1 : row * 7 % classes);
          }
          const ops::CrossEntropyArgs args{reduction, 0, -1};
          const Shape loss_shape = reduction == Reduction::none ? Shape{rows} : Shape{};
          Tensor wanted_loss = Tensor::zeros(loss_shape, DType::float64);
          Tensor wanted_grad = Tensor::zeros({rows, classes}, DType::float64);
          ops::nll_loss(in_float64(x, {rows, classes}), Tensor::from(labels, {rows}),
                        weighted ? in_float64(weight, {classes}) : Tensor{}, wanted_loss,
                        wanted_grad, args);
          Tensor loss = poisoned<T>(loss_shape);
          Tensor grad = poisoned<T>({rows, classes});
          ops::nll_loss(upload(x).reshape({rows, classes}), upload(labels),
                        weighted ? upload(weight) : Tensor{}, loss, grad, args);
          if (!(std::is_same_v<T, float16> && reduction == Reduction::sum && rows > 1000)) {
            CHECK(off(download<T>(loss), wanted_loss.to_vector<double>(), 2) == "");
          }
          CHECK(off(download<T>(grad), wanted_grad.to_vector<double>(), 2) == "");
        }
      }
    }
  }
  Tensor loss = poisoned<T>({});
  Tensor grad = poisoned<T>({2, 3});
  CHECK_THROWS_AS(ops::nll_loss(filled<T>({2, 3}, -1), upload(std::vector<std::int64_t>{1, 3}),
                                Tensor{}, loss, grad, ops::CrossEntropyArgs{}),
                  Error);
}

}  // namespace
}  // namespace sinter::on_device
