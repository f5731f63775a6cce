// activation_backward_bias on the GPU: the gradient of activation_backward, and its columns' sums
// in an order that is the same on every run.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

using Act = std::optional<math::AnyActivation>;

// Whole numbers from -3 to 3: every sum of them and of their doubles is exact in float32, so that
// a row too many, too few or twice shows, in whatever order they are added.
template <class T>
std::vector<T> whole_numbers(std::int64_t n, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) {
    value = T(static_cast<float>(numbers.integer(-3, 3)));
  }
  return values;
}

// dx and the bias's gradient, which holds `before` first.
template <class T>
struct Result {
  std::vector<T> dx;
  std::vector<T> sums;
  std::string damage;
};
template <class T>
Result<T> fused(const Tensor& kept, const Tensor& dy, const ops::ActivationArgs& args,
                std::optional<double> before, std::int64_t shift = 0) {
  Placed<T> dx(dy.shape(), shift);
  Placed<T> sums({dy.shape().last()}, 2 * shift);
  if (before) {
    sums.tensor.fill(*before);
  }
  ops::activation_backward_bias(kept, dy, dx.tensor, sums.tensor, args, before.has_value());
  return {dx.values(), sums.values(), dx.damage() + sums.damage()};
}

// Rows of whole groups of eight, whose mask begins with one, have a kernel of their own.
std::uint64_t first_for(std::int64_t width) { return width % 8 == 0 ? 40 : 3; }

template <class T>
std::string wrong_whole_sums(std::int64_t rows, std::int64_t width, const Act& act, double p,
                             std::optional<double> before, std::int64_t shift) {
  const Shape shape{rows, width};
  const std::uint64_t first = first_for(width);
  const ops::ActivationArgs args{
      .act = act, .dropout = {math::dropout_mask(p, 9, 4, 2), first}, .stored = dtype_of<T>};
  const auto n = static_cast<std::size_t>(rows * width);
  std::vector<T> kept = whole_numbers<T>(rows * width, 1);
  for (std::size_t i = 0; i < n; ++i) {  // outputs that dropout made 0
    kept[i] = p == 0 || args.dropout.mask.keep(first + i) ? kept[i] : T(0.0f);
  }
  const std::vector<T> dy = whole_numbers<T>(rows * width, 2);
  const Placed<T> kept_there(upload(kept, shape), shift);
  const Placed<T> dy_there(upload(dy, shape), 3 * shift);
  const Result<T> got = fused<T>(kept_there.tensor, dy_there.tensor, args, before, shift);
  std::vector<T> dx(n);
  std::vector<double> sums(static_cast<std::size_t>(width), before.value_or(0));
  for (std::size_t i = 0; i < n; ++i) {
    const bool passes =
        (!act || value_of(kept[i]) > 0) && (p == 0 || args.dropout.mask.keep(first + i));
    const double slope = passes ? static_cast<double>(value_of(dy[i])) * (p == 0 ? 1 : 2) : 0;
    dx[i] = T(static_cast<float>(slope));
    sums[i % sums.size()] += slope;
  }
  std::vector<T> wanted;
  for (const double sum : sums) {
    wanted.push_back(T(static_cast<float>(sum)));
  }
  std::string wrong = got.damage;
  for (std::size_t i = 0; i < n; ++i) {
    if (value_of(got.dx[i]) != value_of(dx[i])) {
      wrong += wrong.empty() ? text("dx ", i, " is ", value_of(got.dx[i]), "; ") : "";
    }
  }
  for (std::size_t j = 0; j < wanted.size(); ++j) {
    if (value_of(got.sums[j]) != value_of(wanted[j])) {
      wrong += text("sum ", j, " is ", value_of(got.sums[j]), ", not ", value_of(wanted[j]), "; ");
      break;
    }
  }
  return wrong.empty() ? wrong : text(wrong, shape, ", p = ", p);
}

TEST_CASE_TEMPLATE("CUDA: bias gradients are whole sums at every width", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  std::string wrong;
  for (std::int64_t width = 1; width <= 67; ++width) {
    for (const std::int64_t rows : {1, 2, 31, 257}) {
      const bool odd = (width + rows) % 2 == 1;
      const Act act = width % 3 == 0 ? Act{} : Act{math::ReLU{}};
      const std::optional<double> before = odd ? std::optional<double>{3} : std::nullopt;
      for (const double p : {0.0, 0.5}) {
        wrong += wrong.empty() ? wrong_whole_sums<T>(rows, width, act, p, before, width % 4) : "";
      }
    }
  }
  for (const std::int64_t width : {255, 256, 257, 1000, 4096}) {
    for (const std::int64_t rows : {1, 257}) {
      wrong += wrong.empty() ? wrong_whole_sums<T>(rows, width, math::ReLU{}, 0.5, {}, 0) : "";
    }
  }
  CHECK(wrong == "");
}

TEST_CASE_TEMPLATE("CUDA large: bias gradients of 100,000 rows are whole sums", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  std::string wrong;
  for (const std::int64_t width : {1, 2, 7, 8, 31, 64, 67}) {
    wrong += wrong_whole_sums<T>(100000, width, math::ReLU{}, 0.5, 3, 0);
    wrong += wrong_whole_sums<T>(100000, width, Act{}, 0, {}, 1);
  }
  wrong += wrong_whole_sums<T>(3001, 4096, math::ReLU{}, 0.5, {}, 0);
  CHECK(wrong == "");
}

TEST_CASE_TEMPLATE("CUDA: dx is activation_backward's, bias gradients sums of any numbers", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{128, 256}, Shape{129, 255}, Shape{1000, 67}, Shape{3, 40001},
        Shape{517, 264}, Shape{2, 3, 50}, Shape{7}, Shape{5000, 10}}) {
    const Tensor x = upload(random_values<T>(shape.numel(), 4, -2, 2), shape);
    const Tensor dy = upload(random_values<T>(shape.numel(), 5, -2, 2), shape);
    for (const double p : {0.0, 0.3, 1.0}) {
      for (const Act& act : {Act{}, Act{math::ReLU{}}, Act{math::GELU{}}, Act{math::Tanh{}}}) {
        for (const std::optional<double> before : {std::optional<double>{}, {3.0}}) {
          CAPTURE(shape);
          CAPTURE(p);
          const ops::ActivationArgs args{
              .act = act,
              .dropout = {math::dropout_mask(p, 9, 4, 2), first_for(shape.last())},
              .stored = dtype_of<T>};
          const bool from_input = act && std::holds_alternative<math::GELU>(*act);
          const Tensor kept = from_input ? x : forward<T>(x, args);
          const Result<T> got = fused<T>(kept, dy, args, before);
          CHECK(unlike(got.dx, download<T>(backward<T>(kept, dy, args))) == "");
          const Result<T> again = fused<T>(kept, dy, args, before);
          CHECK(unlike(got.sums, again.sums) == "");  // the same bytes on every run
          CHECK(unlike(got.dx, again.dx) == "");
          Placed<T> in_place(shape, 0);  // dx over dy, as autograd has it
          Placed<T> in_place_sums({shape.last()}, 0);
          in_place.tensor.copy_from(dy);
          if (before) {
            in_place_sums.tensor.fill(*before);
          }
          ops::activation_backward_bias(kept, in_place.tensor, in_place.tensor,
                                        in_place_sums.tensor, args, before.has_value());
          CHECK(unlike(in_place.values(), got.dx) == "");
          CHECK(unlike(in_place_sums.values(), got.sums) == "");
          const auto n = static_cast<std::size_t>(shape.last());
          std::vector<Real> sums(n, before.value_or(0)), sizes(n, before.value_or(0)), squares(n);
          for (std::size_t i = 0; i < got.dx.size(); ++i) {
            const Real value = value_of(got.dx[i]);
            sums[i % n] += value;
            sizes[i % n] += std::abs(value);
            squares[i % n] += value * value;
          }
          std::string wrong;
          for (std::size_t j = 0; j < n; ++j) {
            // Sums in float32, of terms that may not have been rounded to storage yet, whose
            // roundings add up at random.
            const Real terms =
                std::is_same_v<T, float> ? 0 : 2 * epsilon<T>() * std::sqrt(squares[j]);
            const Real allowed = 16 * epsilon<float>() * sizes[j] + terms + spacing<T>(sums[j]);
            if (!(std::abs(value_of(got.sums[j]) - sums[j]) <= allowed)) {
              wrong = text("sum ", j, " is ", value_of(got.sums[j]), ", not ", sums[j]);
            }
          }
          CHECK(wrong == "");
        }
      }
    }
  }
}

TEST_CASE("CUDA: of no rows, the bias gradient is 0; of no columns, there is none") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ops::ActivationArgs relu{.act = math::ReLU{}, .dropout = {}};
  const Tensor no_rows = filled<float>({0, 5}, 0);
  Tensor dx = filled<float>({0, 5}, 0);
  Tensor sum = filled<float>({5}, 7);
  ops::activation_backward_bias(no_rows, no_rows, dx, sum, relu, true);
  CHECK(unlike(download<float>(sum), std::vector<float>(5, 7.0f)) == "");
  ops::activation_backward_bias(no_rows, no_rows, dx, sum, relu, false);
  CHECK(unlike(download<float>(sum), std::vector<float>(5, 0.0f)) == "");
  const Tensor thin = filled<float>({5, 0}, 0);
  Tensor thin_dx = filled<float>({5, 0}, 0);
  Tensor no_sum = filled<float>({0}, 0);
  ops::activation_backward_bias(thin, thin, thin_dx, no_sum, relu, false);
}

}  // namespace
}  // namespace sinter::on_device
