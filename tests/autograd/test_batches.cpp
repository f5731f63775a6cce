// Batch sizes around those at which kernels change their way of working, against plain loops in
// float64.
#include <cmath>
#include <memory>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/gradcheck.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

constexpr std::int64_t batches[] = {0, 1, 2, 31, 33, 127, 129, 255, 257};
constexpr std::int64_t in = 19, out = 11;

std::size_t at(std::int64_t row, std::int64_t column, std::int64_t columns) {
  return static_cast<std::size_t>(row * columns + column);
}

struct Reference {
  Numbers y, dx, dw, db;
};

// y = act(x w^T + b) and the gradients of sum(y * dy), as the textbook has them.
template <class Act, class Slope>
Reference linear_reference(std::int64_t batch, const Numbers& x, const Numbers& w, const Numbers& b,
                           const Numbers& dy, Act act, Slope slope) {
  Reference r{Numbers(dy.size()), Numbers(x.size()), Numbers(w.size()), Numbers(b.size())};
  for (std::int64_t i = 0; i < batch; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      double z = b[static_cast<std::size_t>(o)];
      for (std::int64_t k = 0; k < in; ++k) {
        z += x[at(i, k, in)] * w[at(o, k, in)];
      }
      r.y[at(i, o, out)] = act(z);
      const double dz = dy[at(i, o, out)] * slope(z);
      r.db[static_cast<std::size_t>(o)] += dz;
      for (std::int64_t k = 0; k < in; ++k) {
        r.dx[at(i, k, in)] += dz * w[at(o, k, in)];
        r.dw[at(o, k, in)] += dz * x[at(i, k, in)];
      }
    }
  }
  return r;
}

template <class F, class Act, class Slope>
void check_linear(F f, DType dtype, Act act, Slope slope) {
  for (const std::int64_t batch : batches) {
    CAPTURE(batch);
    Tensor x = leaf({batch, in}, 1.0, 1, dtype);
    Tensor w = leaf({out, in}, 1.0, 2, dtype);
    Tensor b = leaf({out}, 1.0, 3, dtype);
    const Tensor dy = tensor({batch, out}, 1.0, 4, dtype);
    Tape tape;
    const Tensor y = f(x, w, b);
    tape.backward(y, dy);
    const Reference r =
        linear_reference(batch, doubles(x), doubles(w), doubles(b), doubles(dy), act, slope);
    // Sums of up to 257 products of numbers below 1, relative to 1.
    const double tolerance = dtype == DType::float64 ? 1e-13 : 2e-5;
    CHECK(largest_error(doubles(y), r.y) <= tolerance);
    CHECK(largest_error(doubles(x.grad()), r.dx) <= tolerance);
    CHECK(largest_error(doubles(w.grad()), r.dw) <= tolerance);
    CHECK(largest_error(doubles(b.grad()), r.db) <= tolerance);
  }
}

TEST_CASE("linear at every batch size, the empty one too") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    check_linear([](auto& x, auto& w, auto& b) { return linear(x, w, b); }, dtype,
                 [](double z) { return z; }, [](double) { return 1.0; });
  }
}

TEST_CASE("linear with an activation at every batch size") {
  const auto sigmoid_of = [](double z) { return 1 / (1 + std::exp(-z)); };
  for (const DType dtype : {DType::float64, DType::float32}) {
    // One that is differentiated from its output, one from its input.
    check_linear([](auto& x, auto& w, auto& b) { return linear_activation(x, w, b, math::Tanh{}); },
                 dtype, [](double z) { return std::tanh(z); },
                 [](double z) { return 1 / (std::cosh(z) * std::cosh(z)); });
    check_linear([](auto& x, auto& w, auto& b) { return linear_activation(x, w, b, math::SiLU{}); },
                 dtype, [=](double z) { return z * sigmoid_of(z); },
                 [=](double z) { return sigmoid_of(z) + z * sigmoid_of(z) * (1 - sigmoid_of(z)); });
  }
}

TEST_CASE("the bias gradient at batch 257 is the double sum of the rows") {
  Tensor b = leaf({3}, 1.0, 1, DType::float32);
  const Tensor x = Tensor::full({257, 3}, 0.0);
  const Tensor dy = tensor({257, 3}, 100.0, 2, DType::float32);
  Tape tape;
  tape.backward(x + b, dy);
  const Numbers rows = doubles(dy);
  for (std::size_t column = 0; column < 3; ++column) {
    double sum = 0;
    double magnitude = 0;
    for (std::size_t row = 0; row < 257; ++row) {
      sum += rows[row * 3 + column];
      magnitude += std::abs(rows[row * 3 + column]);
    }
    CHECK(std::abs(doubles(b.grad())[column] - sum) <= 1e-6 * magnitude);
  }
}

TEST_CASE("gradients through dropout at every batch size") {
  for (const std::int64_t batch : batches) {
    if (batch == 0) {
      continue;  // nothing to compare
    }
    CAPTURE(batch);
    // 11 columns, so that rows begin within the mask's groups of eight.
    const auto f = [](std::span<const Tensor> x) {
      const DropoutOptions dropout{0.4, std::make_shared<Generator>(3)};
      return linear_activation(x[0], x[1], x[2], math::GELU{}, dropout);
    };
    const GradCheckReport report = check_gradient(
        f, {tensor({batch, 3}, 2.0, 1), tensor({11, 3}, 2.0, 2), tensor({11})}, {.at_most = 12});
    CHECK_MESSAGE(report.passed, report.worst);
  }
}

TEST_CASE("cross entropy at every batch size") {
  constexpr std::int64_t classes = 7;
  for (const std::int64_t batch : batches) {
    CAPTURE(batch);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < batch; ++i) {
      labels.push_back(i * 5 % classes);
    }
    Tensor logits = leaf({batch, classes}, 5.0, 1, DType::float32);
    Tape tape;
    const Tensor loss = cross_entropy(logits, Tensor::from(labels, {batch}));
    tape.backward(loss);
    const Numbers z = doubles(logits);
    Numbers gradient(z.size());
    double total = 0;
    for (std::int64_t i = 0; i < batch; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < classes; ++j) {
        sum += std::exp(z[at(i, j, classes)]);
      }
      const std::int64_t label = labels[static_cast<std::size_t>(i)];
      total += std::log(sum) - z[at(i, label, classes)];
      for (std::int64_t j = 0; j < classes; ++j) {
        const double softmax = std::exp(z[at(i, j, classes)]) / sum;
        gradient[at(i, j, classes)] = (softmax - (j == label)) / static_cast<double>(batch);
      }
    }
    CHECK(loss.item() ==
          doctest::Approx(batch == 0 ? 0 : total / static_cast<double>(batch)).epsilon(1e-6));
    CHECK(largest_error(doubles(logits.grad()), gradient) <= 1e-7);
  }
}

}  // namespace
}  // namespace sinter
