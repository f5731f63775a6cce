// Losses: known values, extreme logits, what is ignored, and what callers get wrong.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter {
namespace {

using namespace testing;
using doctest::Approx;

constexpr double e = 2.718281828459045;

Tensor labels_of(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// Losses [rows] and gradient of their sum.
struct Both {
  std::vector<double> losses, gradient;
};

Both entropy(const std::vector<double>& logits, const Shape& shape,
             const std::vector<std::int64_t>& labels, CrossEntropyOptions options = {},
             DType dtype = DType::float64) {
  Tensor x = Tensor::from(logits, shape).to(dtype);
  x.set_requires_grad();
  if (options.class_weights.defined()) {
    options.class_weights = options.class_weights.to(dtype);
  }
  Tape tape;
  const Tensor loss = cross_entropy(x, labels_of(labels), options);
  tape.backward(loss, Tensor::full(loss.shape(), 1.0, dtype));
  return {doubles(loss), doubles(x.grad())};
}

TEST_CASE("cross entropy of two classes is a logarithm") {
  // softmax([0, ln 3]) = [1/4, 3/4]
  const std::vector<double> row{0, std::log(3.0)};
  const Both first = entropy(row, {1, 2}, {0});
  CHECK(first.losses[0] == Approx(std::log(4.0)));
  CHECK(largest_error(first.gradient, {-0.75, 0.75}) < 1e-15);
  const Both second = entropy(row, {1, 2}, {1});
  CHECK(second.losses[0] == Approx(std::log(4.0 / 3.0)));
  CHECK(largest_error(second.gradient, {0.25, -0.25}) < 1e-15);
}

TEST_CASE("cross entropy with reductions, weights, smoothing and ignored rows") {
  // Rows with softmax [1/4, 3/4] and [1/2, 1/2].
  const std::vector<double> logits{0, std::log(3.0), 2, 2};
  const double a = std::log(4.0), b = std::log(2.0), c = std::log(4.0 / 3.0);
  const auto loss = [&](const std::vector<std::int64_t>& labels, const CrossEntropyOptions& o) {
    return entropy(logits, {2, 2}, labels, o).losses;
  };
  CHECK(largest_error(loss({0, 1}, {.reduction = Reduction::none}), {a, b}) < 1e-15);
  CHECK(largest_error(loss({0, 1}, {.reduction = Reduction::sum}), {a + b}) < 1e-15);
  CHECK(largest_error(loss({0, 1}, {.reduction = Reduction::mean}), {(a + b) / 2}) < 1e-15);
  // PyTorch's weighted mean divides by the weights of the labels that occur.
  const Tensor weights = Tensor::from({3.0, 0.5}, {2});
  CHECK(largest_error(loss({0, 1}, {.class_weights = weights}), {(3 * a + 0.5 * b) / 3.5}) < 1e-15);
  CHECK(largest_error(loss({0, 1}, {.reduction = Reduction::sum, .class_weights = weights}),
                      {3 * a + 0.5 * b}) < 1e-15);
  CHECK(largest_error(loss({-100, 1}, {}), {b}) < 1e-15);
  CHECK(largest_error(loss({0, 1}, {.ignore_index = 1}), {a}) < 1e-15);
  CHECK(largest_error(loss({0, -100}, {.reduction = Reduction::none}), {a, 0}) < 1e-15);
  // Smoothing 0.2 puts 0.9 on the label and 0.1 on the other of two classes.
  CHECK(largest_error(loss({0, 1}, {.reduction = Reduction::none, .label_smoothing = 0.2}),
                      {0.9 * a + 0.1 * c, b}) < 1e-15);
}

TEST_CASE("an ignored row has no gradient and takes no part in the mean") {
  const Both both = entropy({0, std::log(3.0), 5, -7}, {2, 2}, {0, -100});
  CHECK(largest_error(both.gradient, {-0.75, 0.75, 0, 0}) < 1e-15);
}

TEST_CASE("nothing to average is 0, with gradient 0") {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    const Both ignored = entropy({1, 2, 3, 4}, {2, 2}, {-100, -100}, {.reduction = reduction});
    CHECK(ignored.losses == std::vector<double>{0});
    CHECK(ignored.gradient == std::vector<double>(4, 0.0));
    const Both empty = entropy({}, {0, 2}, {}, {.reduction = reduction});
    CHECK(empty.losses == std::vector<double>{0});
    CHECK(empty.gradient.empty());
  }
  CHECK(mse_loss(Tensor::zeros({0, 3}), Tensor::zeros({0, 3})).item() == 0);
  check_error([] { mean(Tensor::zeros({0})); }, {"mean", "no elements"});
  CHECK(sum(Tensor::zeros({0})).item() == 0);
}

// Logits, the loss when class 0 is right, and the gradient: exact limits.
TEST_CASE("extreme logits") {
  struct Row {
    std::vector<double> logits;
    double loss;
    std::vector<double> gradient;
  };
  const Row rows[] = {{{800, 1, 1}, 0, {0, 0, 0}},
                      {{1, 801, 1}, 800, {-1, 1, 0}},
                      {{-2000, -2000}, std::log(2.0), {-0.5, 0.5}},
                      {{1e30, -1e30}, 0, {0, 0}},
                      {{-1e30, 1e30}, 2e30, {-1, 1}},
                      {{7, 7, 7, 7}, std::log(4.0), {-0.75, 0.25, 0.25, 0.25}},
                      {{1, 0}, std::log(1 + 1 / e), {-1 / (1 + e), 1 / (1 + e)}}};
  struct Type {
    DType dtype;
    double largest, epsilon;  // of the type
  };
  for (const Type& type :
       {Type{DType::float64, 1e308, 1e-15}, Type{DType::float32, 3e38, 1e-6},
        Type{DType::bfloat16, 3e38, 0.008}, Type{DType::float16, 65504, 0.001}}) {
    for (const Row& row : rows) {
      if (std::abs(row.logits[0]) > type.largest) {
        continue;  // no number of this type
      }
      CAPTURE(type.dtype);
      CAPTURE(row.logits[0]);
      const auto classes = static_cast<std::int64_t>(row.logits.size());
      const Both both = entropy(row.logits, {1, classes}, {0}, {}, type.dtype);
      CHECK(both.losses[0] == Approx(row.loss).epsilon(type.epsilon));
      CHECK(largest_error(both.gradient, row.gradient) <= type.epsilon);
    }
  }
}

TEST_CASE("mean squared error") {
  Tensor x = leaf_of({1.0, 4.0});
  const Tensor target = Tensor::from({3.0, 3.0}, {2});
  Tape tape;
  const Tensor loss = mse_loss(x, target);
  CHECK(loss.item() == 2.5);
  tape.backward(loss);
  CHECK(doubles(x.grad()) == std::vector<double>{-2, 1});
  CHECK(mse_loss(x, target, {.reduction = Reduction::sum}).item() == 5);
  CHECK(doubles(mse_loss(x, target, {.reduction = Reduction::none})) == std::vector<double>{4, 1});
}

TEST_CASE("a wrong label is told with its row and value, and the next call works") {
  Tensor logits = leaf({3, 10});
  const auto loss = [&](const std::vector<std::int64_t>& labels) {
    return cross_entropy(logits, labels_of(labels));
  };
  check_error([&] { loss({1, 2, 10}); }, {"cross_entropy", "row 2", "10", "labels start at 0"});
  check_error([&] { loss({1, -1, 3}); }, {"row 1", "-1"});
  check_error([&] { loss({1000000, 2, 3}); }, {"row 0", "1000000"});
  check_error([&] { loss({1, 2, std::numeric_limits<std::int64_t>::min()}); }, {"row 2"});
  CHECK(loss({0, 9, 5}).item() > 0);
  Tape tape;
  check_error([&] { loss({1, 2, 10}); }, {"row 2"});
  tape.backward(loss({0, 9, 5}));
  CHECK(logits.grad().defined());
}

TEST_CASE("targets of the wrong kind are one sentence") {
  const Tensor logits = tensor({3, 4});
  check_error(
      [&] {
        cross_entropy(logits, Tensor::zeros({3, 4}, DType::float64));
      },
      {"cross_entropy", "class numbers", "float64 [3, 4]", "one-hot", "argmax"});
  check_error(
      [&] {
        cross_entropy(logits, Tensor::zeros({3, 4}, DType::int64));
      },
      {"cross_entropy", "[3, 4]", "one-hot"});
  check_error([&] { cross_entropy(logits, Tensor::zeros({3})); }, {"int64", "float32"});
  check_error([&] { cross_entropy(logits, Tensor::zeros({2}, DType::int64)); }, {"[3]", "[2]"});
  check_error([&] { cross_entropy(logits, Tensor{}); }, {"cross_entropy"});
  check_error([&] { cross_entropy(tensor({4}), Tensor::zeros({4}, DType::int64)); },
              {"[rows, classes]", "[4]"});
  check_error(
      [&] {
        cross_entropy(tensor({2, 0}), Tensor::zeros({2}, DType::int64));
      },
      {"no classes"});
  const Tensor labels = Tensor::zeros({3}, DType::int64);
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    check_error([&] { cross_entropy(logits, labels, {.label_smoothing = bad}); },
                {"label_smoothing", "[0, 1]"});
  }
  check_error([&] { cross_entropy(logits, labels, {.class_weights = Tensor::zeros({4})}); },
              {"class weights", "[4]", "float64"});
  check_error([&] { cross_entropy(logits, Tensor::zeros({3}, DType::int64, Device::fake())); },
              {"cross_entropy", "cpu", "fake"});
  check_error([&] { mse_loss(logits, tensor({4, 3})); }, {"mse_loss", "[3, 4]", "[4, 3]"});
  check_error(
      [&] {
        mse_loss(logits, tensor({3, 4}, 1.0, 1, DType::float32));
      },
      {"mse_loss", "float64", "float32"});
}

TEST_CASE("pointwise losses of the wrong kind are one sentence") {
  const Tensor x = tensor({3, 4}), t = tensor({3, 4}, 0.4, 2);
  check_error([&] { l1_loss(x, tensor({4, 3})); }, {"l1_loss", "[3, 4]", "[4, 3]"});
  check_error([&] { l1_loss(Tensor{}, t); }, {"l1_loss"});
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    check_error([&] { huber_loss(x, t, {.delta = bad}); }, {"huber_loss", "delta", "above 0"});
  }
  for (const double bad : {-1.0, std::nan("")}) {
    check_error([&] { smooth_l1_loss(x, t, {.beta = bad}); }, {"smooth_l1_loss", "beta"});
  }
  check_error([&] { binary_cross_entropy_with_logits(x, t, {.pos_weight = tensor({3})}); },
              {"pos_weight", "[3, 4]", "[3]"});
  check_error([&] { kl_div(x, t, {.reduction = Reduction::sum, .batch_mean = true}); },
              {"kl_div", "batch_mean"});
  check_error([&] { nll_loss(tensor({3}), t); }, {"nll_loss", "[rows, classes]"});
  check_error([&] { nll_loss(x, Tensor::zeros({2}, DType::int64)); }, {"nll_loss", "[3]", "[2]"});
  check_error([&] { nll_loss(x, Tensor::full({3}, 4, DType::int64)); },
              {"nll_loss: label 4 at row 0"});
  const Tensor learnt = leaf({3, 4});
  Tape tape;
  check_error([&] { kl_div(x, learnt * 1.0); }, {"kl_div", "gradient of the target"});
  check_error([&] { binary_cross_entropy_with_logits(x, learnt * 1.0); },
              {"binary_cross_entropy_with_logits", "detach()"});
  const Tensor weight = leaf({4}), labels = Tensor::zeros({3}, DType::int64);
  check_error([&] { binary_cross_entropy_with_logits(x, t, {.pos_weight = weight}); },
              {"pos_weight", "detach()"});
  check_error([&] { cross_entropy(x, labels, {.class_weights = weight}); },
              {"cross_entropy", "class weights", "detach()"});
  check_error([&] { nll_loss(x, labels, {.class_weights = weight}); },
              {"nll_loss", "class weights", "detach()"});
}

TEST_CASE("nll_loss of log-probabilities is cross entropy of logits") {
  const Tensor logits = tensor({5, 4});
  const Tensor labels = Tensor::from<std::int64_t>({2, 0, 3, -100, 1}, {5});
  const Tensor weights = Tensor::from({0.5, 2.0, 1.25, 0.25}, {4});
  std::vector<double> logs = doubles(softmax(logits));
  std::ranges::transform(logs, logs.begin(), [](double p) { return std::log(p); });
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const Tensor wanted =
        cross_entropy(logits, labels, {.reduction = reduction, .class_weights = weights});
    const Tensor got = nll_loss(Tensor::from(logs, {5, 4}), labels,
                                {.reduction = reduction, .class_weights = weights});
    CHECK(largest_error(doubles(got), doubles(wanted)) < 1e-14);
  }
  const Tensor none = Tensor::full({5}, -100, DType::int64);
  CHECK(nll_loss(Tensor::from(logs, {5, 4}), none).item() == 0);
}

TEST_CASE(
    "binary cross entropy keeps its digits where a logit is sure, kl_div where a target is 0") {
  const double x = 40, small = std::exp(-x);
  const Tensor logits = Tensor::from({x, -x, x, -x}, {4});
  const Tensor targets = Tensor::from({1.0, 0.0, 0.0, 1.0}, {4});
  const auto losses =
      doubles(binary_cross_entropy_with_logits(logits, targets, {.reduction = Reduction::none}));
  const std::vector<double> wanted{small, small, x, x};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(losses[i] == doctest::Approx(wanted[i]).epsilon(1e-14));
  }
  CHECK(std::isnan(kl_div(Tensor::from({std::nan("")}, {1}), Tensor::from({0.0}, {1})).item()));
  const Tensor logs = Tensor::from({-1e300, -1.0}, {1, 2});
  CHECK(kl_div(logs, Tensor::from({0.0, 1.0}, {1, 2}), {.reduction = Reduction::sum}).item() == 1);
}

TEST_CASE("softmax and argmax") {
  const Tensor x = Tensor::from({0.0, std::log(3.0), 1e30, -1e30}, {2, 2});
  CHECK(largest_error(doubles(softmax(x)), {0.25, 0.75, 1, 0}) < 1e-15);
  const Tensor ties = Tensor::from({1.0, 3.0, 3.0, 0.0, -1.0, std::nan("")}, {2, 3});
  CHECK(argmax(ties).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(argmax(Tensor::from({1.0, 2.0}, {2})).shape() == Shape{});
  check_error([] { argmax(Tensor::zeros({2, 0})); }, {"argmax", "at least one class"});
}

}  // namespace
}  // namespace sinter
