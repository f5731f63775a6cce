// activation_backward_bias: the gradient of activation_backward, and its columns' sums.

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

template <class T>
std::string check(const Tensor& kept, const Tensor& dy, const ops::ActivationArgs& args,
                  bool accumulate) {
  Tensor wanted_dx = Tensor::full(dy.shape(), -77, dtype_of<T>);
  ops::activation_backward(kept, dy, wanted_dx, args);
  const std::int64_t n = dy.shape().last();
  std::vector<Real> sums(static_cast<std::size_t>(n), accumulate ? 3 : 0);
  std::vector<Real> magnitudes(static_cast<std::size_t>(n), 3);
  const std::vector<Real> values = reals(wanted_dx);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i % static_cast<std::size_t>(n)] += values[i];
    magnitudes[i % static_cast<std::size_t>(n)] += std::abs(values[i]);
  }
  Tensor dx = Tensor::full(dy.shape(), -77, dtype_of<T>);
  Tensor sum = Tensor::full({n}, accumulate ? 3 : not_a_number, dtype_of<T>);
  ops::activation_backward_bias(kept, dy, dx, sum, args, accumulate);
  if (const std::string wrong = different(dx, wanted_dx); !wrong.empty()) {
    return "dx: " + wrong;
  }
  // And to the last bit what the sum by itself gives.
  Tensor by_itself = Tensor::full({n}, accumulate ? 3 : not_a_number, dtype_of<T>);
  ops::sum_to(dx, by_itself, accumulate);
  if (const std::string wrong = different(sum, by_itself); n > 1 && !wrong.empty()) {
    return "against sum_to: " + wrong;
  }
  const std::string wrong = apart<T>(sum, sums, [&](std::size_t i) {
    return 50 * Real{std::numeric_limits<T>::epsilon()} * magnitudes[i];
  });
  return wrong.empty() ? wrong : "sum: " + wrong;
}

TEST_CASE_TEMPLATE("dx is activation_backward's, the bias gradient its columns' sums", T, float,
                   double) {
  Numbers numbers(1);
  // One piece, pieces of rows, rows in several pieces, odd everything.
  for (const Shape& shape : {Shape{1, 1}, Shape{128, 256}, Shape{129, 255}, Shape{1000, 67},
                             Shape{3, 40001}, Shape{2, 3, 50}, Shape{7}}) {
    const Tensor kept = random_tensor<T>(shape, numbers, -2, 2);
    const Tensor dy = random_tensor<T>(shape, numbers, -2, 2);
    for (const double p : {0.0, 0.3, 1.0}) {
      const ops::DropoutArgs dropout{math::dropout_mask(p, 9, 4, 2), 3};
      for (const std::optional<math::AnyActivation>& act :
           {std::optional<math::AnyActivation>{}, std::optional<math::AnyActivation>{math::ReLU{}},
            std::optional<math::AnyActivation>{math::GELU{}}}) {
        for (const bool accumulate : {false, true}) {
          CAPTURE(shape);
          CAPTURE(p);
          CHECK(check<T>(kept, dy, {.act = act, .dropout = dropout}, accumulate) == "");
        }
      }
    }
  }
}

TEST_CASE("of no rows, the bias gradient is 0; of no columns, there is none") {
  const ops::ActivationArgs relu{.act = math::ReLU{}, .dropout = {}};
  const Tensor none = Tensor::empty({0, 5});
  Tensor dx = Tensor::empty({0, 5});
  Tensor sum = Tensor::full({5}, 7);
  ops::activation_backward_bias(none, none, dx, sum, relu, true);
  CHECK(sum.to_vector<float>() == std::vector<float>(5, 7.0f));
  ops::activation_backward_bias(none, none, dx, sum, relu, false);
  CHECK(sum.to_vector<float>() == std::vector<float>(5, 0.0f));
  const Tensor thin = Tensor::empty({5, 0});
  Tensor thin_dx = Tensor::empty({5, 0});
  Tensor no_sum = Tensor::empty({0});
  ops::activation_backward_bias(thin, thin, thin_dx, no_sum, relu, false);
}

}  // namespace
}  // namespace sinter
