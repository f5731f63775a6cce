// Batch norms as a function: statistics, what stands behind the norm, and errors. Values against
// PyTorch are golden_check's subject, derivatives test_gradients.cpp's.
#include <cmath>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>

namespace sinter {
namespace {

using namespace testing;

RunningStatistics fresh(std::int64_t channels, DType dtype = DType::float32) {
  return {Tensor::zeros({channels}, dtype), Tensor::full({channels}, 1, dtype),
          Tensor::zeros({}, DType::int64)};
}

TEST_CASE("running statistics take in each batch, with the unbiased variance") {
  // Mean 3, variance 3.5, unbiased 14/3; then mean 5 and 0.
  const Tensor first = Tensor::from<double>({1, 2, 3, 6}, {4, 1});
  const Tensor second = Tensor::full({4, 1}, 5, DType::float64);
  const RunningStatistics running = fresh(1, DType::float64);
  batch_norm(first, running, {}, {}, true, 0.25);
  CHECK(running.mean.item() == doctest::Approx(0.75).epsilon(1e-14));
  CHECK(running.var.item() == doctest::Approx(0.75 + 14.0 / 12).epsilon(1e-14));
  batch_norm(second, running, {}, {}, true, 0.25);
  CHECK(running.mean.item() == doctest::Approx(0.75 * 0.75 + 1.25).epsilon(1e-14));
  CHECK(running.num_batches_tracked.item() == 2);

  const RunningStatistics average = fresh(1, DType::float64);
  batch_norm(first, average, {}, {}, true, std::nullopt);
  CHECK(average.mean.item() == doctest::Approx(3).epsilon(1e-14));
  CHECK(average.var.item() == doctest::Approx(14.0 / 3).epsilon(1e-14));
  batch_norm(second, average, {}, {}, true, std::nullopt);
  CHECK(average.mean.item() == doctest::Approx(4).epsilon(1e-14));
  CHECK(average.var.item() == doctest::Approx(7.0 / 3).epsilon(1e-14));

  const auto before = doubles(average.mean);
  batch_norm(first, average);
  CHECK(doubles(average.mean) == before);
  CHECK(average.num_batches_tracked.item() == 2);
}

TEST_CASE("a small spread around a large mean comes out right") {
  const Shape shape{300, 2, 7};
  Tensor x = tensor(shape, 1.0, 3, DType::float32);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    x.data<float>()[i] += 1e4f;
  }
  x.data<float>()[0] = 0;  // far from all others
  const RunningStatistics running = fresh(2);
  batch_norm(x, running, {}, {}, true, 1.0);
  for (std::int64_t channel = 0; channel < 2; ++channel) {
    long double sum = 0, squares = 0;
    const auto each = [&](auto use) {
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        if (i / 7 % 2 == channel) {
          use(static_cast<long double>(x.data<float>()[i]));
        }
      }
    };
    each([&](long double value) { sum += value / 2100; });
    each([&](long double value) { squares += (value - sum) * (value - sum) / 2099; });
    CHECK(running.mean.data<float>()[channel] ==
          doctest::Approx(static_cast<double>(sum)).epsilon(1e-7));
    CHECK(running.var.data<float>()[channel] ==
          doctest::Approx(static_cast<double>(squares)).epsilon(1e-6));
  }
}

// y and the gradients of x, weight, bias and residual.
template <class F>
std::vector<Tensor> results(const Shape& shape, F f) {
  const Shape channels{shape[1]};
  std::vector<Tensor> in{leaf(shape), leaf(channels, 2.0, 5), leaf(channels, 2.0, 6),
                         leaf(shape, 2.0, 7)};
  Tape tape;
  const Tensor y = f(in);
  tape.backward(sum(y * tensor(shape, 2.0, 8)));
  return {y.detach(), in[0].grad(), in[1].grad(), in[2].grad(), in[3].grad()};
}

TEST_CASE("what stands behind the norm is what it would be alone") {
  const auto masks = [] {
    return DropoutOptions{.p = 0.3, .generator = std::make_shared<Generator>(5)};
  };
  for (const Shape& shape : {Shape{33, 5}, Shape{3, 5, 11}, Shape{2, 3, 31, 37}}) {
    for (const math::AnyActivation& act :
         {math::AnyActivation{math::ReLU{}}, math::AnyActivation{math::GELU{}}}) {
      const auto fused = results(shape, [&](const std::vector<Tensor>& in) {
        return batch_norm(in[0], {}, in[1], in[2], true, 0.1, 1e-5,
                          {.residual = in[3], .act = act, .dropout = masks()});
      });
      const auto apart = results(shape, [&](const std::vector<Tensor>& in) {
        const Tensor y = batch_norm(in[0], {}, in[1], in[2], true);
        return activation(y + in[3], act, masks());
      });
      for (std::size_t i = 0; i < fused.size(); ++i) {
        CAPTURE(i);
        CHECK(largest_error(fused[i], apart[i]) < 1e-11);
      }
    }
  }
}

TEST_CASE("16-bit elements have float32 statistics and are rounded once") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = tensor({40, 3}, 2.0, 1, dtype);
    const RunningStatistics running = fresh(3), wide = fresh(3);
    const Tensor y = batch_norm(x, running, {}, {}, true);
    const Tensor of_float32 = batch_norm(x.to(DType::float32), wide, {}, {}, true);
    CHECK(y.dtype() == dtype);
    CHECK(same(y, of_float32.to(dtype)));
    CHECK(same(running.mean, wide.mean));
    CHECK(same(running.var, wide.var));
  }
}

TEST_CASE("a NaN spoils its own channel, and what is dropped is 0 all the same") {
  Tensor x = tensor({6, 3});
  x.data<double>()[4] = std::nan("");
  const Tensor y = batch_norm(x, {}, {}, {}, true);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    CHECK(std::isnan(y.data<double>()[i]) == (i % 3 == 1));
  }
  const Tensor none = batch_norm(
      x, {}, {}, {}, true, 0.1, 1e-5,
      {.act = math::ReLU{}, .dropout = {.p = 1, .generator = std::make_shared<Generator>(1)}});
  CHECK(doubles(none) == std::vector<double>(18, 0));
}

TEST_CASE("outside of training a batch may be of any size") {
  const RunningStatistics running{Tensor::from<double>({1, 2}, {2}),
                                  Tensor::from<double>({3, 8}, {2}),
                                  Tensor::zeros({}, DType::int64)};
  const Tensor one =
      batch_norm(Tensor::from<double>({5, 5}, {1, 2}), running, {}, {}, false, 0.1, 1);
  CHECK(doubles(one) == std::vector<double>{2, 1});
  Tensor empty = leaf({0, 2});
  Tape tape;
  const Tensor y = batch_norm(empty, running);
  CHECK(y.shape() == Shape{0, 2});
  tape.backward(sum(y));
  CHECK(empty.grad().shape() == Shape{0, 2});
}

TEST_CASE("backward takes the running statistics that forward took") {
  const RunningStatistics running = fresh(3, DType::float64);
  Tensor x = leaf({4, 3});
  Tape tape;
  const Tensor y = sum(batch_norm(x, running));
  batch_norm(x.detach(), running, {}, {}, true);
  tape.backward(y);
  CHECK(largest_error(doubles(x.grad()), std::vector<double>(12, 1 / std::sqrt(1 + 1e-5))) < 1e-15);
}

TEST_CASE("errors of batch_norm") {
  const Tensor x = tensor({4, 3});
  const auto running = fresh(3, DType::float64);
  check_error(
      [&] {
        batch_norm(tensor({1, 3}), running, {}, {}, true);
      },
      {"batch_norm", "more than 1 value per channel", "[1, 3]"});
  check_error(
      [&] {
        batch_norm(tensor({0, 3}), running, {}, {}, true);
      },
      {"batch_norm", "more than 1 value per channel", "[0, 3]"});
  check_error([&] { batch_norm(tensor({4}), running, {}, {}, true); }, {"[N, C, ...]", "[4]"});
  check_error(
      [&] {
        batch_norm(Tensor::zeros({4, 3}, DType::int64), running);
      },
      {"batch_norm", "floating", "int64"});
  check_error([&] { batch_norm(x, {}); }, {"batch_norm", "running statistics"});
  check_error([&] { batch_norm(x, {running.mean, running.var, {}}); }, {"all of them or none"});
  check_error([&] { batch_norm(x, fresh(4, DType::float64)); }, {"running mean", "[3]", "[4]"});
  check_error([&] { batch_norm(x, fresh(3)); }, {"running mean", "float64", "float32"});
  check_error([&] { batch_norm(x, running, tensor({4})); }, {"weight", "[3]", "[4]"});
  check_error([&] { batch_norm(x, running, {}, tensor({3, 1})); }, {"bias", "[3]", "[3, 1]"});
  check_error(
      [&] {
        batch_norm(x, running, {}, {}, false, 0.1, 1e-5, {.residual = tensor({4, 1})});
      },
      {"residual", "[4, 3]", "[4, 1]"});
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check_error([&] { batch_norm(x, running, {}, {}, false, 0.1, bad); }, {"eps", "above 0"});
  }
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    check_error([&] { batch_norm(x, running, {}, {}, false, bad); }, {"momentum", "[0, 1]"});
  }
  check_error([&] { batch_norm(x, running, {}, {}, false, 0.1, 1e-5, {.dropout = {.p = 0.5}}); },
              {"batch_norm", "generator"});
}

}  // namespace
}  // namespace sinter
