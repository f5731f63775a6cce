// Batch norms on the GPU against the CPU's in float64: channels that are columns and channels that
// are planes, of sizes that fill vectors and groups of the mask and of ones that do not.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

struct Size {
  Shape shape;
  std::int64_t shift = 0;
};
// Columns: fewer than a vector, one group, strips and their ends, several parts; planes: of one
// group, odd ones, ones shorter than a group, ends inside a group, several parts.
const Size sizes[] = {{{2, 1}},         {{5, 7}},           {{3, 8}},        {{33, 264}},
                      {{33, 264}, 1},   {{301, 40}},        {{1500, 12}},    {{1301, 520}},
                      {{2, 3, 8}},      {{4, 5, 3}},        {{3, 2, 2, 5}},  {{1, 3, 7, 7}},
                      {{5, 11, 7, 7}},  {{5, 11, 7, 7}, 1}, {{3, 4, 8, 10}}, {{9, 2, 40, 40}},
                      {{9, 2, 41, 33}}, {{2, 600, 16}},     {{5000, 1}},     {{700, 3, 2}},
                      {{1, 1, 40001}}};

double values_per_channel(const Shape& shape) {
  return static_cast<double>(shape.numel() / shape[1]);
}

Tensor empty64(const Shape& shape) { return Tensor::zeros(shape, DType::float64); }

template <class T>
std::string wrong_statistics(const Size& size, std::optional<double> momentum, double center,
                             bool tracks) {
  const Shape& shape = size.shape;
  const Shape channels{shape[1]};
  std::vector<T> x = random_values<T>(shape.numel(), 1, center - 1, center + 3);
  x[0] = rounded<T>(0);  // which may be far from all others
  const std::vector<float> mean0 = random_values<float>(shape[1], 2, -1, 1);
  const std::vector<float> var0 = random_values<float>(shape[1], 3, 0.5, 2);
  Tensor none, none_too, no_count;
  Tensor mean64 = empty64(channels), var64 = empty64(channels);
  Tensor running64 = tracks ? in_float64(mean0, channels) : none;
  Tensor running_var64 = tracks ? in_float64(var0, channels) : none;
  Tensor count64 = tracks ? Tensor::full({}, 3, DType::int64) : none;
  ops::batch_norm_statistics(in_float64(x, shape), mean64, var64, running64, running_var64, count64,
                             momentum);
  const Placed<T> x_there(Tensor::from(x, shape), size.shift);
  Placed<float> mean(channels), var(channels);
  Placed<float> running(Tensor::from(mean0, channels), 0);
  Placed<float> running_var(Tensor::from(var0, channels), 0);
  Tensor count = Tensor::full({}, 3, DType::int64, Device::cuda());
  ops::batch_norm_statistics(x_there.tensor, mean.tensor, var.tensor,
                             tracks ? running.tensor : none, tracks ? running_var.tensor : none_too,
                             tracks ? count : no_count, momentum);
  const double n = values_per_channel(shape);
  std::string found = off(mean.values(), mean64.to_vector<double>(), 2) +
                      off(var.values(), var64.to_vector<double>(), 64 + n / 256) + mean.damage() +
                      var.damage();
  if (tracks) {
    found += off(running.values(), running64.to_vector<double>(), 4, 1) +
             off(running_var.values(), running_var64.to_vector<double>(), 64 + n / 256, 1) +
             running.damage() + running_var.damage();
    if (count.item() != 4) {
      found += text("the count is ", count.item());
    }
  } else if (running.values() != mean0 || count.item() != 3) {
    found += "running statistics changed";
  }
  return found;
}

TEST_CASE_TEMPLATE("CUDA: batch norm's statistics", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const Size& size : sizes) {
    for (const double center : {0.0, 1e4}) {
      INFO(size.shape, ", shift ", size.shift, ", around ", center);
      CHECK(wrong_statistics<T>(size, 0.1, center, true) == "");
      CHECK(wrong_statistics<T>(size, std::nullopt, center, true) == "");
      CHECK(wrong_statistics<T>(size, 0.1, center, false) == "");
    }
  }
}

struct With {
  bool affine = true;
  bool residual = false;
  bool sums_alone = false;  // no statistics of the batch: running ones
};

// Forward and backward, all of it.
template <class T>
std::string wrong_pass(const Size& size, const ops::ActivationArgs& tail, const With& with) {
  const Shape& shape = size.shape;
  const Shape channels{shape[1]}, two{2, shape[1]};
  const std::vector<T> x = random_values<T>(shape.numel(), 1, -2, 2);
  const std::vector<T> dy = random_values<T>(shape.numel(), 2, -1, 1);
  const std::vector<T> residual = random_values<T>(shape.numel(), 3, -1, 1);
  const std::vector<T> weight = random_values<T>(shape[1], 4, 0.5, 2);
  const std::vector<T> bias = random_values<T>(shape[1], 5, -1, 1);
  const std::vector<float> mean = random_values<float>(shape[1], 6, -0.5, 0.5);
  const std::vector<float> var = random_values<float>(shape[1], 7, 0.5, 2);
  const Tensor none;
  const bool has_tail = tail.act || !tail.dropout.mask.is_identity();
  const bool from_z = tail.act && needs_input(*tail.act);
  ops::NormArgs args{1e-3, tail};
  const ops::WeightGradientFlags flags{.accumulate_bias = true};

  const Tensor x64 = in_float64(x, shape), dy64 = in_float64(dy, shape);
  const Tensor r64 = with.residual ? in_float64(residual, shape) : none;
  const Tensor w64 = with.affine ? in_float64(weight, channels) : none;
  const Tensor b64 = with.affine ? in_float64(bias, channels) : none;
  const Tensor m64 = in_float64(mean, channels), v64 = in_float64(var, channels);
  Tensor y64 = empty64(shape), dz64 = has_tail ? empty64(shape) : none, sums64 = empty64(two);
  Tensor dx64 = empty64(shape), dw64 = with.affine ? empty64(channels) : none;
  Tensor db64 = with.affine ? in_float64(bias, channels) : none;
  ops::batch_norm_forward(x64, m64, v64, w64, b64, r64, y64, args);

  const auto placed = [&](const std::vector<T>& values) {
    return Placed<T>(Tensor::from(values, shape), size.shift);
  };
  const Placed<T> x_there = placed(x), r_there = placed(residual);
  Placed<T> dy_there = placed(dy);
  const Tensor r = with.residual ? r_there.tensor : none;
  const Tensor w = with.affine ? upload(weight) : none, b = with.affine ? upload(bias) : none;
  const Tensor m = upload(mean), v = upload(var);
  Placed<T> y(shape, size.shift), dz(shape, size.shift), dx(shape, size.shift);
  args.tail.stored = dtype_of<T>;
  ops::batch_norm_forward(x_there.tensor, m, v, w, b, r, y.tensor, args);
  std::string found = y.damage();

  // Backward from what was stored.
  const std::vector<T> stored = y.values();
  ops::batch_norm_backward_sums(x64, m64, v64, w64, b64,
                                from_z     ? r64
                                : tail.act ? in_float64(stored, shape)
                                           : none,
                                dy64, dz64, sums64, dw64, db64, args, flags);
  ops::batch_norm_backward(x64, m64, v64, w64, has_tail ? dz64 : dy64,
                           with.sums_alone ? none : sums64, dx64, args.eps);
  Placed<float> sums(two);
  Tensor dw = with.affine ? poisoned<T>(channels) : none, db = with.affine ? upload(bias) : none;
  Tensor no_dz;
  ops::batch_norm_backward_sums(x_there.tensor, m, v, w, b,
                                from_z     ? r
                                : tail.act ? y.tensor
                                           : none,
                                dy_there.tensor, has_tail ? dz.tensor : no_dz, sums.tensor, dw, db,
                                args, flags);
  ops::batch_norm_backward(x_there.tensor, m, v, w, has_tail ? dz.tensor : dy_there.tensor,
                           with.sums_alone ? none : sums.tensor, dx.tensor, args.eps);
  // An activation is right to 4 ulp in float32, and to less than one of a 16-bit type.
  const double roundings = has_tail && !std::is_same_v<T, float>
                               ? static_cast<double>(spacing<T>(1) / epsilon<float>())
                               : 24;
  const double n = values_per_channel(shape);
  found += off(stored, y64.to_vector<double>(), roundings, 4) +
           off(dx.values(), dx64.to_vector<double>(), 2 * roundings + n / 256, 8) + dx.damage() +
           off(sums.values(), sums64.to_vector<double>(), roundings + n / 256, 4 * std::sqrt(n)) +
           sums.damage();
  if (has_tail) {
    found += off(dz.values(), dz64.to_vector<double>(), 2 * roundings, 4) + dz.damage();
    // In place, as backward does it: the same bytes.
    Tensor of_z = poisoned<float>(two);
    ops::batch_norm_backward_sums(x_there.tensor, m, v, w, b,
                                  from_z     ? r
                                  : tail.act ? y.tensor
                                             : none,
                                  dy_there.tensor, dy_there.tensor, of_z, dw, db, args, {});
    found += unlike(dy_there.values(), dz.values()) + dy_there.damage() +
             unlike(download<float>(of_z), sums.values());
  }
  if (with.affine) {
    const auto of_sums = [&](const Tensor& gradient, const Tensor& wanted) {
      return off(download<T>(gradient), wanted.to_vector<double>(), roundings + n / 256,
                 4 * std::sqrt(n));
    };
    found += of_sums(dw, dw64);
    if (!has_tail) {
      found += of_sums(db, db64);
    }
  }
  return found;
}

TEST_CASE_TEMPLATE("CUDA: batch norms and their gradients", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ops::DropoutArgs mask{math::dropout_mask(0.3, 5, 6, 7), 0};
  for (const Size& size : sizes) {
    INFO(size.shape, ", shift ", size.shift);
    CHECK(wrong_pass<T>(size, {}, {}) == "");
    CHECK(wrong_pass<T>(size, {}, {.affine = false, .sums_alone = true}) == "");
    CHECK(wrong_pass<T>(size, {}, {.residual = true}) == "");
    CHECK(wrong_pass<T>(size, {math::ReLU{}, mask}, {.residual = true}) == "");
    CHECK(wrong_pass<T>(size, {math::SiLU{}, mask}, {.residual = true}) == "");
    CHECK(wrong_pass<T>(size, {std::nullopt, mask}, {}) == "");
  }
}

TEST_CASE_TEMPLATE("CUDA: every activation behind a batch norm", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ops::DropoutArgs dropouts[] = {{},
                                       {math::dropout_mask(0.3, 5, 6, 7), 3},
                                       {math::dropout_mask(0.3, 5, 6, 7, math::MaskScheme::triton)},
                                       {math::dropout_mask(1, 5, 6, 7)}};
  math::for_each_activation([&]<class A>() {
    for (const Size& size : {Size{{9, 16}}, Size{{5, 7}}, Size{{3, 2, 24}}, Size{{2, 3, 11}}}) {
      for (const ops::DropoutArgs& dropout : dropouts) {
        INFO(std::string(A::name), ", ", size.shape);
        CHECK(wrong_pass<T>(size, {A{}, dropout}, {}) == "");
        CHECK(wrong_pass<T>(size, {A{}, dropout}, {.affine = false, .residual = true}) == "");
      }
    }
  });
}

TEST_CASE("CUDA: an empty batch has sums of 0, and keeps what they are added to") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const Tensor x = filled<float>({0, 3}, 0), ones = filled<float>({3}, 1), absent;
  Tensor y = filled<float>({0, 3}, 0), sums = poisoned<float>({2, 3}), no_dz;
  Tensor dw = poisoned<float>({3}), db = filled<float>({3}, 5);
  ops::batch_norm_forward(x, ones, ones, absent, absent, absent, y, {});
  ops::batch_norm_backward_sums(x, ones, ones, absent, absent, absent, x, no_dz, sums, dw, db, {},
                                {.accumulate_bias = true});
  ops::batch_norm_backward(x, ones, ones, absent, x, sums, y, 1e-5);
  CHECK(download<float>(sums) == std::vector<float>(6, 0));
  CHECK(download<float>(dw) == std::vector<float>(3, 0));
  CHECK(download<float>(db) == std::vector<float>(3, 5));
}

TEST_CASE("CUDA: a batch norm repeats to the bit, and a NaN stays in its channel") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const Shape& shape : {Shape{3000, 40}, Shape{3000, 41}, Shape{16, 5, 40, 40}}) {
    std::vector<float> values = random_values<float>(shape.numel(), 1, -1, 1);
    values[static_cast<std::size_t>(shape.numel() / shape[0] / shape[1])] = not_a_number;
    const Tensor x = upload(values, shape);
    const Shape channels{shape[1]};
    const auto run = [&] {
      Tensor absent, no_count, more;
      Tensor mean = poisoned<float>(channels), var = poisoned<float>(channels);
      ops::batch_norm_statistics(x, mean, var, absent, more, no_count, 0.1);
      auto out = download<float>(mean);
      const auto spread = download<float>(var);
      out.insert(out.end(), spread.begin(), spread.end());
      return out;
    };
    const auto once = run();
    CHECK(unlike(run(), once) == "");
    for (std::size_t i = 0; i < once.size(); ++i) {
      CHECK(std::isnan(once[i]) == (i % static_cast<std::size_t>(shape[1]) == 1));
    }
  }
}

}  // namespace
}  // namespace sinter::on_device
