// Cross entropy and its gradient against the definition in long double.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../../runtime/sentence.h"
#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

using ops::Reduction;

// Adds up what is not the largest, so that a network sure of its answer loses no digits.
struct LogSoftmax {
  std::vector<Real> minus_log_p;
  std::vector<Real> p;

  explicit LogSoftmax(const std::vector<Real>& x) {
    std::size_t top = 0;
    for (std::size_t j = 1; j < x.size(); ++j) {
      top = x[j] > x[top] ? j : top;
    }
    Real rest = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      rest += j == top ? 0 : std::exp(x[j] - x[top]);
    }
    for (const Real value : x) {
      minus_log_p.push_back(x[top] - value + std::log1p(rest));
      p.push_back(std::exp(-minus_log_p.back()));
    }
  }
  // 1 - p[t], as the sum of the other probabilities.
  Real others(std::size_t t) const {
    Real sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      sum += j == t ? 0 : p[j];
    }
    return sum;
  }
};

struct Expected {
  std::vector<Real> losses;
  std::vector<Real> grad;
};

// Szegedy et al., 2016, with class weights as torch.nn.CrossEntropyLoss has them.
Expected expected(const Tensor& logits, const std::vector<std::int64_t>& labels,
                  const std::vector<Real>& weights, const ops::CrossEntropyArgs& args) {
  const auto classes = static_cast<std::size_t>(logits.shape().last());
  const std::vector<Real> all = reals(logits);
  const Real s = args.label_smoothing;
  const auto weight = [&](std::size_t c) { return weights.empty() ? 1 : weights[c]; };
  Real total_weight = 0;
  for (const std::int64_t t : labels) {
    total_weight += t == args.ignore_index ? 0 : weight(static_cast<std::size_t>(t));
  }
  const Real scale = args.reduction != Reduction::mean ? 1
                     : total_weight == 0               ? 0
                                                       : 1 / total_weight;
  Expected out;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == args.ignore_index) {
      out.losses.push_back(0);
      out.grad.insert(out.grad.end(), classes, 0);
      continue;
    }
    const auto t = static_cast<std::size_t>(labels[row]);
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(row * classes);
    const LogSoftmax l({at, at + static_cast<std::ptrdiff_t>(classes)});
    Real loss = (1 - s) * weight(t) * l.minus_log_p[t];
    Real weights_in_all = 0;
    const Real others = l.others(t);
    for (std::size_t c = 0; c < classes; ++c) {
      loss += s == 0 ? 0 : s / Real(classes) * weight(c) * l.minus_log_p[c];
      weights_in_all += weight(c);
    }
    out.losses.push_back(loss);
    for (std::size_t j = 0; j < classes; ++j) {
      const Real sharp = (1 - s) * weight(t) * (j == t ? -others : l.p[j]);
      const Real smooth = s / Real(classes) * (l.p[j] * weights_in_all - weight(j));
      out.grad.push_back((sharp + smooth) * scale);
    }
  }
  if (args.reduction != Reduction::none) {
    Real total = 0;
    for (const Real loss : out.losses) {
      total += loss;
    }
    out.losses = {total * scale};
  }
  return out;
}

Tensor from_labels(const std::vector<std::int64_t>& labels) {
  return Tensor::from(labels, {static_cast<std::int64_t>(labels.size())});
}

// Empty if loss and gradient of the op are those of the definition, `ulps` apart at most.
template <class T>
std::string compare(const Tensor& logits, const std::vector<std::int64_t>& labels,
                    const Tensor& weights, const ops::CrossEntropyArgs& args, double ulps) {
  const Expected wanted =
      expected(logits, labels, weights.defined() ? reals(weights) : std::vector<Real>{}, args);
  const std::int64_t rows = logits.size(0);
  Tensor loss =
      Tensor::full(args.reduction == Reduction::none ? Shape{rows} : Shape{}, -77, dtype_of<T>);
  Tensor grad = Tensor::full(logits.shape(), -77, dtype_of<T>);
  ops::cross_entropy(logits, from_labels(labels), weights, loss, grad, args);
  // With smoothing, terms of both signs cancel in float64 before the one rounding to float32.
  const double cancelled = args.label_smoothing == 0 ? 0 : 1e-15;
  std::string wrong = apart_by_ulps<T>(loss, wanted.losses, ulps);
  if (!wrong.empty()) {
    return "loss: " + wrong;
  }
  wrong = apart_by_ulps<T>(grad, wanted.grad, ulps, cancelled);
  if (!wrong.empty()) {
    return "gradient: " + wrong;
  }
  // The same without a gradient.
  Tensor alone = Tensor::full(loss.shape(), -77, dtype_of<T>);
  Tensor none;
  ops::cross_entropy(logits, from_labels(labels), weights, alone, none, args);
  return different(alone, loss);
}

TEST_CASE_TEMPLATE("weights, smoothing, ignored rows and reductions", T, float, double) {
  // Roundings of a float64 exponential whose argument may be 40; float32 sees none of them.
  const double ulps = std::is_same_v<T, float> ? 1 : 200;
  Numbers numbers(1);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{1, 2}, Shape{7, 3}, Shape{31, 10}, Shape{257, 10}, Shape{33, 1001}}) {
    const std::int64_t rows = shape[0];
    const std::int64_t classes = shape[1];
    const Tensor logits = random_tensor<T>({rows, classes}, numbers, -15, 15);
    const Tensor weights = random_tensor<T>({classes}, numbers, 0.25, 4);
    std::vector<std::int64_t> labels;
    for (std::int64_t row = 0; row < rows; ++row) {
      labels.push_back(numbers.integer(0, classes - 1));
    }
    std::vector<std::int64_t> with_ignored = labels;
    for (std::size_t row = 0; row < with_ignored.size(); row += 3) {
      with_ignored[row] = -100;
    }
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        for (const Tensor& w : {Tensor{}, weights}) {
          CAPTURE(rows);
          CAPTURE(classes);
          CAPTURE(smoothing);
          const ops::CrossEntropyArgs args{.reduction = reduction, .label_smoothing = smoothing};
          CHECK(compare<T>(logits, labels, w, args, ulps) == "");
          CHECK(compare<T>(logits, with_ignored, w, args, ulps) == "");
          ops::CrossEntropyArgs other = args;
          other.ignore_index = labels[0];  // a class that does not count
          CHECK(compare<T>(logits, labels, w, other, ulps) == "");
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("extreme logits give finite, right losses and gradients", T, float, double) {
  const std::vector<T> rows[] = {
      {800, 1, 1}, {-2000, -2000, -2000}, {T(1e30), T(-1e30), 0}, {T(1e30), T(1e30), T(1e30)},
      {0, 0, 0},   {-800, -800, 5},       {1e-30f, 0, 0}};
  for (const auto& row : rows) {
    for (std::int64_t label = 0; label < 3; ++label) {
      for (const double smoothing : {0.0, 0.2}) {
        CAPTURE(row[0]);
        CAPTURE(label);
        CHECK(compare<T>(Tensor::from(row, {1, 3}), {label}, {}, {.label_smoothing = smoothing},
                         std::is_same_v<T, float> ? 1 : 8) == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("a network sure of its answer: loss and gradient keep their digits", T, float,
                   double) {
  for (const double margin : {1.0, 5.0, 10.0, 17.0, 25.0, 40.0, 80.0}) {
    const Tensor logits = Tensor::from(std::vector<T>{0, static_cast<T>(margin), T(0.5)}, {1, 3});
    CAPTURE(margin);
    for (std::int64_t label = 0; label < 3; ++label) {
      CHECK(compare<T>(logits, {label}, {}, {}, std::is_same_v<T, float> ? 1 : 16) == "");
    }
  }
}

TEST_CASE("16-bit logits: computed in float32, rounded once") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    const double big = dtype == DType::float16 ? 60000 : 1e30;
    const Tensor logits =
        Tensor::from(std::vector<double>{800, 1, 1, -2000, -2000, -2000, big, -big, 0}, {3, 3})
            .to(dtype);
    const std::vector<std::int64_t> labels{0, 1, 0};
    Tensor loss = Tensor::full({3}, -77);  // float32 losses of 16-bit logits
    Tensor grad = Tensor::full({3, 3}, -77, dtype);
    ops::cross_entropy(logits, from_labels(labels), Tensor{}, loss, grad,
                       {.reduction = Reduction::none});
    CHECK(apart_by_ulps<float>(loss, {0, std::log(3.0L), 0}, 1) == "");
    const Tensor third = Tensor::from({1 / 3.0, 2 / 3.0}, {2}).to(dtype).to(DType::float64);
    const Real one = reals(third)[0];
    const Real two = reals(third)[1];
    CHECK(reals(grad) == std::vector<Real>{0, 0, 0, one, -two, one, 0, 0, 0});
  }
}

TEST_CASE_TEMPLATE("nothing to average over gives 0, never NaN", T, float, double) {
  const Tensor logits = Tensor::full({3, 4}, 2, dtype_of<T>);
  const Tensor weights = Tensor::from(std::vector<T>{0, 0, 1, 1}, {4});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const ops::CrossEntropyArgs args{.reduction = reduction};
    CHECK(compare<T>(logits, {-100, -100, -100}, {}, args, 0) == "");
    CHECK(compare<T>(Tensor::zeros({0, 4}, dtype_of<T>), {}, {}, args, 0) == "");
    CHECK(compare<T>(Tensor::zeros({0, 0}, dtype_of<T>), {}, {}, args, 0) == "");
    CHECK(compare<T>(logits, {0, 1, 0}, weights, args, 0) == "");  // all weigh nothing
  }
  Tensor loss = Tensor::full({}, -77, dtype_of<T>);
  Tensor grad = Tensor::zeros({0, 4}, dtype_of<T>);
  ops::cross_entropy(Tensor::zeros({0, 4}, dtype_of<T>), from_labels({}), Tensor{}, loss, grad, {});
  CHECK(loss.item() == 0);
}

TEST_CASE_TEMPLATE("an ignored row may hold anything", T, float, double) {
  const std::vector<T> rows{static_cast<T>(not_a_number), static_cast<T>(infinity), 1, 2};
  Tensor loss = Tensor::zeros({}, dtype_of<T>);
  Tensor grad = Tensor::full({2, 2}, -77, dtype_of<T>);
  ops::cross_entropy(Tensor::from(rows, {2, 2}), from_labels({-100, 1}), Tensor{}, loss, grad, {});
  CHECK(apart_by_ulps<T>(loss, {std::log1p(std::exp(-1.0L))}, 4) == "");
  CHECK(grad.data<T>()[0] == 0);
  CHECK(grad.data<T>()[1] == 0);
}

TEST_CASE_TEMPLATE("a NaN among the logits is a NaN in the loss", T, float, double) {
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<T> row{1, 2, 3};
    row[at] = static_cast<T>(not_a_number);
    for (std::int64_t label = 0; label < 3; ++label) {
      Tensor loss = Tensor::zeros({}, dtype_of<T>);
      Tensor grad = Tensor::zeros({1, 3}, dtype_of<T>);
      ops::cross_entropy(Tensor::from(row, {1, 3}), from_labels({label}), Tensor{}, loss, grad, {});
      CHECK(std::isnan(loss.item()));
      CHECK(std::isnan(grad.data<T>()[0]));
    }
  }
}

TEST_CASE("labels of every integer type mean the same") {
  Numbers numbers(5);
  const Tensor logits = random_tensor<float>({4, 200}, numbers, -3, 3);
  const Tensor labels = from_labels({0, 199, 130, 7});
  Tensor wanted = Tensor::zeros({});
  Tensor none;
  ops::cross_entropy(logits, labels, none, wanted, none, {});
  for (const DType dtype : {DType::int32, DType::uint8}) {
    Tensor loss = Tensor::zeros({});
    ops::cross_entropy(logits, labels.to(dtype), none, loss, none, {});
    CHECK(different(loss, wanted) == "");
  }
}

std::string sentence_for(const Tensor& labels, std::int64_t classes) {
  Tensor loss = Tensor::zeros({});
  Tensor grad = Tensor::zeros({labels.numel(), classes});
  return sentence_of([&] {
    ops::cross_entropy(Tensor::zeros({labels.numel(), classes}), labels, Tensor{}, loss, grad, {});
  });
}

TEST_CASE("a label outside the classes is named with its row, and the next call works") {
  const auto says = [](const std::string& sentence, const std::string& words) {
    CAPTURE(sentence);
    CHECK(sentence.find(words) != std::string::npos);
  };
  says(sentence_for(from_labels({0, 1, 10, 11}), 10), "label 10 at row 2 is outside [0, 10)");
  says(sentence_for(from_labels({3, -1}), 10), "label -1 at row 1 is outside [0, 10)");
  says(sentence_for(from_labels({std::int64_t{1} << 32}), 10), "label 4294967296 at row 0");
  says(sentence_for(from_labels({1, 2}).to(DType::uint8), 2), "label 2 at row 1");
  says(sentence_for(from_labels({1, -7}).to(DType::int32), 2), "label -7 at row 1");
  says(sentence_for(from_labels({0}), 0), "label 0 at row 0 is outside [0, 0)");
  CHECK(sentence_for(from_labels({0, -100, 9}), 10) == "<nothing thrown>");
}

TEST_CASE("labels that count from 1 are told so") {
  const std::string hint = "labels start at 0";
  const auto hinted = [&hint](const std::string& sentence) {
    return sentence.find(hint) != std::string::npos;
  };
  std::vector<std::int64_t> from_one;
  for (std::int64_t label = 1; label <= 10; ++label) {
    from_one.push_back(label);
  }
  const std::string sentence = sentence_for(from_labels(from_one), 10);
  CHECK(sentence.find("label 10 at row 9") != std::string::npos);
  CHECK(hinted(sentence));
  CHECK(hinted(sentence_for(from_labels(from_one).to(DType::uint8), 10)));
  CHECK_FALSE(hinted(sentence_for(from_labels({0, 10}), 10)));  // a 0 is there
  CHECK_FALSE(hinted(sentence_for(from_labels({1, 12}), 10)));
  CHECK_FALSE(hinted(sentence_for(from_labels({1, -1}), 10)));
}

}  // namespace
}  // namespace sinter
