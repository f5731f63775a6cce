#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

using ops::Reduction;

void squared_error(const Tensor& x, const Tensor& target, Tensor& loss, Tensor& grad,
                   Reduction reduction) {
  ops::pointwise_loss(x, target, Tensor{}, loss, grad,
                      {math::SquaredError{}, reduction, x.numel()});
}

TEST_CASE_TEMPLATE("squared differences and their gradient", T, float, double) {
  Numbers numbers(1);
  // The difference is rounded to float64, which for float32 operands is no rounding to speak of.
  const double ulps = std::is_same_v<T, float> ? 1 : 4;
  for (const std::int64_t n : {1, 2, 31, 257, 5000}) {
    const Tensor x = random_tensor<T>({n}, numbers, -2, 2);
    const Tensor target = random_tensor<T>({n}, numbers, -2, 2);
    const std::vector<Real> a = reals(x);
    const std::vector<Real> b = reals(target);
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const Real scale = reduction == Reduction::mean ? 1 / Real(n) : 1;
      std::vector<Real> losses;
      std::vector<Real> slopes;
      Real total = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const Real d = a[i] - b[i];
        losses.push_back(d * d);
        slopes.push_back(2 * d * scale);
        total += d * d;
      }
      const bool each = reduction == Reduction::none;
      Tensor loss = Tensor::full(each ? Shape{n} : Shape{}, -77, dtype_of<T>);
      Tensor grad = Tensor::full({n}, -77, dtype_of<T>);
      squared_error(x, target, loss, grad, reduction);
      CAPTURE(n);
      if (each) {
        CHECK(apart_by_ulps<T>(loss, losses, ulps) == "");
      } else {
        // n additions in float64.
        CHECK(apart_by_ulps<T>(loss, {total * scale}, std::is_same_v<T, float> ? 1 : double(n)) ==
              "");
      }
      CHECK(apart_by_ulps<T>(grad, slopes, ulps) == "");
      Tensor alone = Tensor::full(loss.shape(), -77, dtype_of<T>);
      Tensor none;
      squared_error(x, target, alone, none, reduction);
      CHECK(different(alone, loss) == "");
    }
  }
}

TEST_CASE("mse of nothing is 0, of the same is 0, of the largest does not overflow in between") {
  Tensor loss = Tensor::full({}, -77);
  Tensor none;
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    squared_error(Tensor::zeros({0}), Tensor::zeros({0}), loss, none, reduction);
    CHECK(loss.item() == 0);
  }
  const Tensor x = Tensor::full({2, 3}, 0.1);
  Tensor grad = Tensor::full({2, 3}, -77);
  squared_error(x, x, loss, grad, Reduction::mean);
  CHECK(loss.item() == 0);
  CHECK(grad.to_vector<float>() == std::vector<float>(6, 0.0f));
  // Each square fits float32, their sum does not, their mean does.
  squared_error(Tensor::full({4}, 0x1p63), Tensor::zeros({4}), loss, none, Reduction::mean);
  CHECK(loss.item() == 0x1p126);
  const Tensor nan = Tensor::full({1}, not_a_number);
  squared_error(nan, Tensor::zeros({1}), loss, none, Reduction::sum);
  CHECK(std::isnan(loss.item()));
}

}  // namespace
}  // namespace sinter
