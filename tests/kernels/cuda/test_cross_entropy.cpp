// Cross entropy on the GPU against the CPU's in float64: shapes, weights, smoothing, reductions,
// and numbers at the ends of their range.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

using ops::Reduction;

struct Result {
  std::vector<double> loss, grad;
};

Result reference(const Tensor& logits, const std::vector<std::int64_t>& labels,
                 const Tensor& weights, const ops::CrossEntropyArgs& args) {
  const auto rows = static_cast<std::int64_t>(labels.size());
  Tensor loss =
      Tensor::zeros(args.reduction == Reduction::none ? Shape{rows} : Shape{}, DType::float64);
  Tensor grad = Tensor::zeros(logits.shape(), DType::float64);
  ops::cross_entropy(logits, Tensor::from(labels, {rows}), weights, loss, grad, args);
  return {loss.to_vector<double>(), grad.to_vector<double>()};
}

// Of one call: loss and gradient, the loss alone, and the same once more.
template <class T>
std::string compare(const std::vector<T>& logits, std::int64_t classes,
                    const std::vector<std::int64_t>& labels, const std::vector<T>& weights,
                    const ops::CrossEntropyArgs& args, DType label_type = DType::int64,
                    std::int64_t shift = 0) {
  const auto rows = static_cast<std::int64_t>(labels.size());
  const Shape shape{rows, classes};
  const bool each = args.reduction == Reduction::none;
  const Shape loss_shape = each ? Shape{rows} : Shape{};
  const Result wanted =
      reference(in_float64(logits, shape), labels,
                weights.empty() ? Tensor{} : in_float64(weights, {classes}), args);
  const Placed<T> x(Tensor::from(logits, shape), shift);
  const Tensor there = Tensor::from(labels, {rows}).to(label_type).to(Device::cuda());
  const Tensor w = weights.empty() ? Tensor{} : upload(weights);
  Placed<T> loss(loss_shape, shift);
  Placed<T> grad(shape, 3 * shift);
  ops::cross_entropy(x.tensor, there, w, loss.tensor, grad.tensor, args);
  // One thread of a row adds up so many terms.
  const double terms = static_cast<double>(classes) / (classes <= 1024 ? 32 : 256);
  const double roundings = 10 + terms / 4;
  double total_weight = 0, largest_weight = 1;
  for (const std::int64_t label : labels) {
    if (label != args.ignore_index) {
      total_weight += weights.empty() ? 1 : double(value_of(weights[std::size_t(label)]));
    }
  }
  for (const T& weight : weights) {
    largest_weight = std::max(largest_weight, double(value_of(weight)));
  }
  const double scale =
      args.reduction != Reduction::mean || total_weight == 0 ? 1 : 1 / total_weight;
  // With smoothing, terms of both signs cancel.
  const double cancelled = args.label_smoothing == 0 ? 0
                                                     : 2 * args.label_smoothing * largest_weight *
                                                           scale / static_cast<double>(classes);
  std::string wrong = off(loss.values(), wanted.loss, roundings);
  wrong = wrong.empty() ? wrong : "loss: " + wrong + "; ";
  const std::string slopes = off(grad.values(), wanted.grad, roundings, cancelled);
  wrong += slopes.empty() ? slopes : "gradient: " + slopes + "; ";
  Placed<T> alone(loss_shape, shift);
  Tensor none;
  ops::cross_entropy(x.tensor, there, w, alone.tensor, none, args);
  wrong += unlike(alone.values(), loss.values());
  Placed<T> again(shape, 3 * shift);
  ops::cross_entropy(x.tensor, there, w, alone.tensor, again.tensor, args);
  wrong += unlike(again.values(), grad.values());
  return wrong + loss.damage() + grad.damage() + alone.damage() + again.damage();
}

std::vector<std::int64_t> random_labels(std::int64_t rows, std::int64_t classes) {
  Numbers numbers(3);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
  for (std::int64_t& label : labels) {
    label = numbers.integer(0, classes - 1);
  }
  return labels;
}

template <class T>
void check_variants(std::int64_t rows, std::int64_t classes) {
  const std::vector<T> logits = random_values<T>(rows * classes, 1, -15, 15);
  const std::vector<T> weights = random_values<T>(classes, 2, 0.25, 4);
  const std::vector<std::int64_t> labels = random_labels(rows, classes);
  std::vector<std::int64_t> some = labels;
  for (std::size_t row = 0; row < some.size(); row += 3) {
    some[row] = -100;
  }
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      for (const std::vector<T>& w : {std::vector<T>{}, weights}) {
        INFO(rows, " x ", classes, " ", name_of(reduction), ", smoothing ", smoothing, ", ",
             w.empty() ? "no weights" : "weights");
        const ops::CrossEntropyArgs args{.reduction = reduction, .label_smoothing = smoothing};
        CHECK(compare<T>(logits, classes, labels, w, args) == "");
        CHECK(compare<T>(logits, classes, some, w, args, DType::int32, 1) == "");
        ops::CrossEntropyArgs other = args;
        other.ignore_index = labels.empty() ? 0 : labels[0];  // a class that does not count
        CHECK(compare<T>(logits, classes, labels, w, other) == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: cross entropy, every variant", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const auto& [rows, classes] :
       {std::pair{1, 1}, {1, 2}, {5, 1}, {7, 3}, {31, 10}, {4, 33}, {66, 10}}) {
    check_variants<T>(rows, classes);
  }
}

TEST_CASE("CUDA: cross entropy of many rows and of many classes") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  // Around what the kernels treat in another way.
  for (const auto& [rows, classes] : {std::pair{1024, 2},
                                      {1025, 2},
                                      {2049, 3},
                                      {8192, 1},
                                      {8197, 2},
                                      {3, 1000},
                                      {3, 1024},
                                      {3, 1025},
                                      {2, 50000}}) {
    const std::vector<float> logits = random_values<float>(rows * classes, 1, -8, 8);
    const std::vector<float> weights = random_values<float>(classes, 2, 0.25, 4);
    const std::vector<std::int64_t> labels = random_labels(rows, classes);
    for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
      INFO(rows, " x ", classes, " ", name_of(reduction));
      CHECK(compare<float>(logits, classes, labels, {}, {.reduction = reduction}) == "");
      CHECK(compare<float>(logits, classes, labels, weights,
                           {.reduction = reduction, .label_smoothing = 0.1}) == "");
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: cross entropy for every number of columns up to 70", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (std::int64_t classes = 1; classes <= 70; ++classes) {
    const std::int64_t rows = 1 + classes % 6;
    CAPTURE(classes);
    CHECK(compare<T>(random_values<T>(rows * classes, 1, -9, 9), classes,
                     random_labels(rows, classes), {}, {}, DType::uint8, classes % 3) == "");
  }
}

TEST_CASE_TEMPLATE("CUDA: extreme logits give finite, right losses and gradients", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const float big = std::is_same_v<T, float16> ? 30000.0f : 1e30f;
  const float small = std::is_same_v<T, float16> ? 1e-7f : 1e-30f;
  const std::vector<float> rows[] = {
      {800, 1, 1},     {-2000, -2000, -2000}, {big, -big, 0}, {big, big, big}, {0, 0, 0},
      {-800, -800, 5}, {small, 0, 0},         {0, 17, 0.5f},  {0, 80, 0.5f}};
  for (const auto& row : rows) {
    std::vector<T> logits;
    for (const float value : row) {
      logits.push_back(T(value));
    }
    for (std::int64_t label = 0; label < 3; ++label) {
      for (const double smoothing : {0.0, 0.2}) {
        CAPTURE(row[0]);
        CAPTURE(label);
        CHECK(compare<T>(logits, 3, {label}, {}, {.label_smoothing = smoothing}) == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: cross entropy with nothing to average over is 0, never NaN", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::vector<T> logits(12, T(2.0f));
  const std::vector<T> weights{T(0.0f), T(0.0f), T(1.0f), T(1.0f)};
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const ops::CrossEntropyArgs args{.reduction = reduction};
    CHECK(compare<T>(logits, 4, {-100, -100, -100}, {}, args) == "");
    CHECK(compare<T>({}, 4, {}, {}, args) == "");
    CHECK(compare<T>({}, 0, {}, {}, args) == "");
    CHECK(compare<T>(logits, 4, {0, 1, 0}, weights, args) == "");  // all weigh nothing
  }
}

TEST_CASE_TEMPLATE("CUDA: NaN among the logits is NaN in the loss, but not in an ignored row", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const std::int64_t classes : {3, 40, 1100}) {
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, classes - 1}) {
      std::vector<T> logits(static_cast<std::size_t>(2 * classes), T(1.0f));
      logits[static_cast<std::size_t>(at)] = T(std::nanf(""));
      CAPTURE(classes);
      CAPTURE(at);
      CHECK(compare<T>(logits, classes, {1, 1}, {}, {}) == "");
      CHECK(compare<T>(logits, classes, {-100, 1}, {}, {}) == "");
      CHECK(compare<T>(logits, classes, {1, 1}, {}, {.reduction = Reduction::none}) == "");
    }
  }
}

TEST_CASE("CUDA: the loss of 16-bit logits may be float32") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::vector<float16> logits = random_values<float16>(40, 1, -3, 3);
  const std::vector<std::int64_t> labels{1, 9, 0, 4};
  for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
    const bool each = reduction == Reduction::none;
    Tensor loss = poisoned<float>(each ? Shape{4} : Shape{});
    Tensor grad;
    ops::cross_entropy(upload(logits, {4, 10}), upload(labels), Tensor{}, loss, grad,
                       {.reduction = reduction});
    CHECK(off(download<float>(loss),
              reference(in_float64(logits, {4, 10}), labels, {}, {.reduction = reduction}).loss,
              10) == "");
  }
}

}  // namespace
}  // namespace sinter::on_device
