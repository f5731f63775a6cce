// Softmax, norms and gated linear units on the GPU against the CPU's in float64: rows of every
// kind, those that stay in registers, too long ones, and ones that lie on no vectors.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

struct Size {
  std::int64_t rows, columns, shift;
};
// A warp's two and eight vectors, a block's two, four and eight, beyond, and their neighbours; more
// rows than teams of a norm's backward.
constexpr Size sizes[] = {{3, 1, 0},     {5, 7, 0},     {5, 8, 0},      {3, 64, 0},
                          {3, 64, 1},    {2, 256, 0},   {2, 1000, 0},   {2, 1024, 0},
                          {3, 1025, 0},  {2, 2048, 0},  {2, 4096, 0},   {3, 4100, 0},
                          {2, 8192, 0},  {2, 8200, 1},  {1, 16384, 0},  {1, 20000, 0},
                          {5000, 12, 0}, {5001, 16, 0}, {700, 1040, 0}, {601, 1030, 0}};

template <class T>
std::string wrong_softmax(const Size& size, const ops::SoftmaxArgs& args) {
  const Shape shape{size.rows, size.columns};
  const std::vector<T> x = random_values<T>(shape.numel(), 1, -4, 4);
  Tensor wanted = Tensor::zeros(shape, DType::float64);
  ops::softmax(in_float64(x, shape), wanted, args);
  const Placed<T> x_there(Tensor::from(x, shape), size.shift);
  Placed<T> y(shape, size.shift);
  ops::softmax(x_there.tensor, y.tensor, args);
  const std::vector<T> dy = random_values<T>(shape.numel(), 2, -1, 1);
  const std::vector<T> kept = y.values();
  Tensor wanted_dx = Tensor::zeros(shape, DType::float64);
  ops::softmax_backward(in_float64(kept, shape), in_float64(dy, shape), wanted_dx, args);
  Placed<T> dx(Tensor::from(dy, shape), size.shift);  // in place, as backward does it
  ops::softmax_backward(y.tensor, dx.tensor, dx.tensor, args);
  const double terms = 8 + static_cast<double>(size.columns) / 32;
  return off(y.values(), wanted.to_vector<double>(), terms, args.log ? 1 : 0) +
         off(dx.values(), wanted_dx.to_vector<double>(), terms, 1) + y.damage() + dx.damage();
}

TEST_CASE_TEMPLATE("CUDA: softmax, its logarithm and their gradients", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const Size& size : sizes) {
    for (const bool log : {false, true}) {
      for (const bool negated : {false, true}) {
        INFO(size.rows, " x ", size.columns, ", shift ", size.shift, log ? ", log" : "");
        CHECK(wrong_softmax<T>(size, {log, negated}) == "");
      }
    }
  }
}

// With dropout, where backward is given x and computes the softmax again.
template <class T>
std::string wrong_softmax_dropout(const Size& size, const ops::SoftmaxArgs& args) {
  const Shape shape{size.rows, size.columns};
  const std::vector<T> x = random_values<T>(shape.numel(), 1, -4, 4);
  const std::vector<T> dy = random_values<T>(shape.numel(), 2, -1, 1);
  Tensor wanted = Tensor::zeros(shape, DType::float64);
  Tensor wanted_dx = Tensor::zeros(shape, DType::float64);
  ops::softmax(in_float64(x, shape), wanted, args);
  ops::softmax_backward(in_float64(x, shape), in_float64(dy, shape), wanted_dx, args);
  const Placed<T> x_there(Tensor::from(x, shape), size.shift);
  Placed<T> y(shape, size.shift), dx(Tensor::from(dy, shape), size.shift);
  ops::softmax(x_there.tensor, y.tensor, args);
  ops::softmax_backward(x_there.tensor, dx.tensor, dx.tensor, args);
  const double terms = 8 + static_cast<double>(size.columns) / 32;
  std::string found = off(y.values(), wanted.to_vector<double>(), terms, 0) +
                      off(dx.values(), wanted_dx.to_vector<double>(), terms, 1) + y.damage() +
                      dx.damage();
  // The same elements are dropped, and no others.
  const std::vector<T> values = y.values();
  const std::vector<double> expected = wanted.to_vector<double>();
  for (std::size_t i = 0; i < values.size() && found.empty(); ++i) {
    if (expected[i] == 0 && static_cast<float>(values[i]) != 0) {
      found = text("element ", i, " is kept");
    }
  }
  return found;
}

TEST_CASE_TEMPLATE("CUDA: softmax with dropout behind it, and its gradient", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ops::DropoutArgs mask{math::dropout_mask(0.3, 5, 6, 7)}, inside{mask.mask, 3};
  const ops::DropoutArgs triton{math::dropout_mask(0.3, 5, 6, 7, math::MaskScheme::triton), 3};
  const ops::DropoutArgs everything{math::dropout_mask(1, 5, 6, 7)};
  for (const Size& size : sizes) {
    for (const ops::DropoutArgs& dropout : {mask, inside, triton, everything}) {
      INFO(size.rows, " x ", size.columns, ", shift ", size.shift);
      CHECK(wrong_softmax_dropout<T>(size, {.dropout = dropout}) == "");
    }
  }
  CHECK(wrong_softmax_dropout<T>({3, 64, 0}, {.negated = true, .dropout = mask}) == "");
  CHECK(wrong_softmax_dropout<T>({0, 64, 0}, {.dropout = mask}) == "");
}

TEST_CASE("CUDA: what is dropped behind a softmax is 0, even in a row that is no number") {
  if (!has_gpu()) {
    return;
  }
  for (const std::int64_t columns : {64, 77, 8200}) {
    const ops::SoftmaxArgs args{.dropout = {math::dropout_mask(0.5, 5, 6, 7)}};
    const std::vector<float> x(static_cast<std::size_t>(columns), std::nanf(""));
    Tensor wanted = Tensor::zeros({1, columns}, DType::float64);
    ops::softmax(in_float64(x, {1, columns}), wanted, args);
    Tensor y = poisoned<float>({1, columns});
    ops::softmax(upload(x, {1, columns}), y, args);
    const std::vector<float> values = download<float>(y);
    const std::vector<double> expected = wanted.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(std::isnan(values[i]) == std::isnan(expected[i]));
      CHECK((values[i] == 0) == (expected[i] == 0));
    }
  }
}

// Backward from what the device's own forward pass kept.
template <class T>
std::string wrong_norm(const Size& size, bool centred, bool affine,
                       const ops::ActivationArgs& tail = {}) {
  const Shape shape{size.rows, size.columns}, one{size.columns}, of_rows{size.rows};
  const std::vector<T> x = random_values<T>(shape.numel(), 1, -1, 3);
  const std::vector<T> dy = random_values<T>(shape.numel(), 2, -1, 1);
  const std::vector<T> weight = random_values<T>(size.columns, 3, 0.5, 2);
  const std::vector<T> bias = random_values<T>(size.columns, 4, -1, 1);
  const auto wide = [&](const std::vector<T>& values) {
    return affine ? in_float64(values, one) : Tensor{};
  };
  const auto empty64 = [](const Shape& of) { return Tensor::zeros(of, DType::float64); };
  Tensor y64 = empty64(shape), mean64 = centred ? empty64(of_rows) : Tensor{};
  Tensor rstd64 = empty64(of_rows), dx64 = empty64(shape), none;
  Tensor dw64 = affine ? empty64(one) : none, db64 = affine ? in_float64(bias, one) : none;
  const ops::WeightGradientFlags flags{.accumulate_bias = true};
  ops::norm_forward(in_float64(x, shape), wide(weight), wide(bias), y64, mean64, rstd64,
                    {1e-5, tail});

  const Placed<T> x_there(Tensor::from(x, shape), size.shift);
  const Placed<T> dy_there(Tensor::from(dy, shape), size.shift);
  const Tensor w = affine ? upload(weight) : none, b = affine ? upload(bias) : none;
  Placed<T> y(shape, size.shift), dx(shape, size.shift);
  Tensor mean = centred ? poisoned<float>(of_rows) : none, rstd = poisoned<float>(of_rows);
  Tensor dw = affine ? poisoned<T>(one) : none, db = affine ? upload(bias) : none;
  ops::norm_forward(x_there.tensor, w, b, y.tensor, mean, rstd, {1e-5, tail});
  const bool has_tail = tail.act || !tail.dropout.mask.is_identity();
  if (has_tail) {  // a slope that jumps asks for the same z
    mean64 = centred ? in_float64(download<float>(mean), of_rows) : none;
    rstd64 = in_float64(download<float>(rstd), of_rows);
  }
  ops::norm_backward(in_float64(x, shape), wide(weight), wide(bias), mean64, rstd64,
                     in_float64(dy, shape), dx64, dw64, db64, tail, flags);
  ops::norm_backward(x_there.tensor, w, b, mean, rstd, dy_there.tensor, dx.tensor, dw, db, tail,
                     flags);
  // An activation is right to 4 ulp in float32, and to less than one of a 16-bit type, in which the
  // gradient of z is rounded once.
  const double of_tail = !has_tail ? 0
                         : std::is_same_v<T, float>
                             ? 16
                             : static_cast<double>(spacing<T>(1) / epsilon<float>());
  const double n = 16 + static_cast<double>(size.columns) / 32 + 2 * of_tail;
  std::string found = off(y.values(), y64.to_vector<double>(), n, 4) +
                      off(dx.values(), dx64.to_vector<double>(), n,
                          16 / std::sqrt(1e-5) * (size.columns == 1 ? 1 : 0) + 16) +
                      y.damage() + dx.damage();
  if (affine) {
    // Rows are added up in groups, in float32.
    const double rows = 8 + 2 * std::sqrt(static_cast<double>(size.rows)) + 2 * of_tail;
    const double beside = 4 * (has_tail ? std::sqrt(static_cast<double>(size.rows)) : 1);
    found += off(download<T>(dw), dw64.to_vector<double>(), rows, beside) +
             off(download<T>(db), db64.to_vector<double>(), rows, beside);
  }
  return found;
}

TEST_CASE_TEMPLATE("CUDA: norms and their gradients", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const Size& size : sizes) {
    for (const bool centred : {false, true}) {
      for (const bool affine : {false, true}) {
        INFO(size.rows, " x ", size.columns, ", shift ", size.shift, centred ? ", centred" : "",
             affine ? ", affine" : "");
        CHECK(wrong_norm<T>(size, centred, affine) == "");
      }
    }
  }
  // The gradients of weight and bias are written, or left as they are, all the same.
  CHECK(wrong_norm<T>({0, 5, 0}, true, true) == "");
  CHECK(wrong_norm<T>({0, 64, 0}, false, true) == "");
}

TEST_CASE_TEMPLATE("CUDA: norms with what stands behind them, and their gradients", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ops::DropoutArgs mask{math::dropout_mask(0.3, 5, 6, 7)}, inside{mask.mask, 3};
  const ops::DropoutArgs triton{math::dropout_mask(0.3, 5, 6, 7, math::MaskScheme::triton), 3};
  for (const Size& size : sizes) {
    INFO(size.rows, " x ", size.columns, ", shift ", size.shift);
    CHECK(wrong_norm<T>(size, true, true, {math::SiLU{}, mask}) == "");
    CHECK(wrong_norm<T>(size, false, false, {math::Tanh{}, inside}) == "");
    CHECK(wrong_norm<T>(size, true, true, {std::nullopt, mask}) == "");
    // Where the passes that follow take z rounded to T, so no activation whose slope jumps.
    CHECK(wrong_norm<T>(size, true, true, {math::GELU{}, triton}) == "");
  }
  const ops::DropoutArgs dropouts[] = {{}, mask, {math::dropout_mask(1, 5, 6, 7)}};
  math::for_each_activation([&]<class A>() {
    for (const Size& size : {Size{5, 7, 0}, Size{3, 64, 0}, Size{3, 2048, 0}}) {
      for (const ops::DropoutArgs& dropout : dropouts) {
        INFO(std::string(A::name), ", ", size.rows, " x ", size.columns);
        CHECK(wrong_norm<T>(size, false, true, {A{}, dropout}) == "");
      }
    }
  });
}

TEST_CASE("CUDA: a norm's gradients come one by one and together, and repeat to the bit") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const std::int64_t columns : {40, 41, 2048}) {
    const Shape shape{3000, columns};
    const Tensor x = upload(random_values<float>(shape.numel(), 1, -1, 1), shape);
    const Tensor dy = upload(random_values<float>(shape.numel(), 2, -1, 1), shape);
    const Tensor rstd = filled<float>({3000}, 1.5f), mean = filled<float>({3000}, 0.1f);
    const auto run = [&](bool wants_dx, bool wants_dw, bool wants_db,
                         const ops::ActivationArgs& tail) {
      Tensor nothing;
      Tensor dx = wants_dx ? poisoned<float>(shape) : nothing;
      Tensor dw = wants_dw ? poisoned<float>({columns}) : nothing;
      Tensor db = wants_db ? poisoned<float>({columns}) : nothing;
      ops::norm_backward(x, nothing, nothing, mean, rstd, dy, dx, dw, db, tail, {});
      std::vector<std::vector<float>> all;
      for (const Tensor& tensor : {dx, dw, db}) {
        all.push_back(tensor.defined() ? download<float>(tensor) : std::vector<float>{});
      }
      return all;
    };
    const ops::ActivationArgs gelu{math::GELU{}, {math::dropout_mask(0.3, 5, 6, 7)}};
    for (const ops::ActivationArgs& tail : {ops::ActivationArgs{}, gelu}) {
      const auto together = run(true, true, true, tail);
      CHECK(run(true, true, true, tail) == together);
      CHECK(run(true, false, false, tail)[0] == together[0]);
      CHECK(run(false, true, false, tail)[1] == together[1]);
      CHECK(run(false, false, true, tail)[2] == together[2]);
    }
  }
}

template <class T>
std::string wrong_glu(const Size& size, const ops::ActivationArgs& args) {
  const Shape shape{size.rows, 2 * size.columns}, half{size.rows, size.columns};
  const std::vector<T> x = random_values<T>(shape.numel(), 1, -3, 3);
  const std::vector<T> dy = random_values<T>(half.numel(), 2, -1, 1);
  Tensor wanted = Tensor::zeros(half, DType::float64),
         wanted_dx = Tensor::zeros(shape, DType::float64);
  ops::glu_forward(in_float64(x, shape), wanted, args);
  ops::glu_backward(in_float64(x, shape), in_float64(dy, half), wanted_dx, args);
  const Placed<T> x_there(Tensor::from(x, shape), size.shift);
  const Placed<T> dy_there(Tensor::from(dy, half), size.shift);
  Placed<T> y(half, size.shift), dx(shape, size.shift);
  ops::glu_forward(x_there.tensor, y.tensor, args);
  ops::glu_backward(x_there.tensor, dy_there.tensor, dx.tensor, args);
  // The gate is right to 4 ulp in float32, and to less than one of a 16-bit type.
  const double roundings =
      std::is_same_v<T, float> ? 10 : static_cast<double>(spacing<T>(1) / 2 / epsilon<float>());
  return off(y.values(), wanted.to_vector<double>(), roundings, 0.5) +
         off(dx.values(), wanted_dx.to_vector<double>(), roundings, 4) + y.damage() + dx.damage();
}

TEST_CASE_TEMPLATE("CUDA: gated linear units, every gate, with dropout and without", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ops::DropoutArgs dropouts[] = {{},
                                       {math::dropout_mask(0.3, 5, 6, 7)},
                                       {math::dropout_mask(0.3, 5, 6, 7, math::MaskScheme::triton)},
                                       {math::dropout_mask(1, 5, 6, 7)}};
  math::for_each_activation([&]<class A>() {
    for (const Size& size : {Size{3, 8, 0}, Size{5, 7, 0}, Size{4, 33, 1}}) {
      for (const ops::DropoutArgs& dropout : dropouts) {
        INFO(std::string(A::name), ", ", size.rows, " x ", size.columns);
        CHECK(wrong_glu<T>(size, {A{}, dropout}) == "");
      }
    }
  });
  for (const Size& size : {Size{1, 1, 0}, Size{101, 520, 0}, Size{3, 4097, 0}}) {
    CHECK(wrong_glu<T>(size, {math::SiLU{}, dropouts[1]}) == "");
  }
}

}  // namespace
}  // namespace sinter::on_device
