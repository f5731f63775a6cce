// The backward of Linears on the GPU, and the last Linear with its loss, against the CPU's in
// float64.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "losses.h"

namespace sinter::on_device {
namespace {

// A product's terms are rounded to float32 one after another, what is between two passes to T.
template <class T>
double allowed(std::int64_t terms, int roundings_to_storage) {
  return 4 * static_cast<double>(terms) +
         (std::is_same_v<T, float>
              ? 0
              : roundings_to_storage * static_cast<double>(epsilon<T>() / epsilon<float>()));
}

struct Sizes {
  std::int64_t rows, in, out;
};
constexpr Sizes all_sizes[] = {{1, 1, 1},    {3, 5, 7},     {33, 1, 10}, {33, 20, 1}, {128, 64, 10},
                               {70, 67, 65}, {130, 33, 40}, {0, 3, 5},   {5, 17, 0}};

template <class T>
struct Numbered {
  std::vector<T> values;
  Shape shape;
  Tensor here() const { return in_float64(values, shape); }
  Tensor there() const { return upload(values, shape); }
};
template <class T>
Numbered<T> numbered(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1) {
  return {random_values<T>(shape.numel(), seed, low, high), shape};
}

TEST_CASE_TEMPLATE("CUDA: the gradient of a Linear's input, with the pass below or without", T,
                   float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ExactProducts exact;
  for (const Sizes& s : all_sizes) {
    const Numbered<T> dy = numbered<T>({s.rows, s.out}, 1);
    const Numbered<T> w = numbered<T>({s.out, s.in}, 2);
    const Numbered<T> kept = numbered<T>({s.rows, s.in}, 3, 0.1, 0.9);
    for (const double p : {0.0, 0.4, 1.0}) {
      for (const bool below : {false, true}) {
        INFO(s.rows, ", ", s.in, " to ", s.out, ", p = ", p, below ? ", a pass below" : "");
        const ops::ActivationArgs args{.act = math::Sigmoid{},
                                       .dropout = {math::dropout_mask(p, 5, 1, 2)},
                                       .stored = dtype_of<T>};
        Tensor wanted = Tensor::zeros({s.rows, s.in}, DType::float64);
        ops::linear_backward_input(dy.here(), w.here(), below ? kept.here() : Tensor{}, wanted,
                                   args);
        Placed<T> dx({s.rows, s.in});
        ops::linear_backward_input(dy.there(), w.there(), below ? kept.there() : Tensor{},
                                   dx.tensor, args);
        // The factors are below 1.
        CHECK(off(dx.values(), wanted.to_vector<double>(), allowed<T>(s.out, 4) * (below ? 2 : 1),
                  1) == "");
        CHECK(dx.damage() == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("CUDA: the gradients of the parameters of many Linears", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ExactProducts exact;
  std::vector<Tensor> dy, x, dw, db, dy_here, x_here, dw_here, db_here;
  std::vector<ops::WeightGradientFlags> flags;
  std::int64_t most_rows = 1;
  for (std::size_t i = 0; i < std::size(all_sizes); ++i) {
    const Sizes& s = all_sizes[i];
    most_rows = std::max(most_rows, s.rows);
    const Numbered<T> given = numbered<T>({s.rows, s.out}, 10 + i);
    const Numbered<T> input = numbered<T>({s.rows, s.in}, 20 + i);
    const Numbered<T> old_w = numbered<T>({s.out, s.in}, 30 + i);
    const Numbered<T> old_b = numbered<T>({s.out}, 40 + i);
    const auto push = [](std::vector<Tensor>& there, std::vector<Tensor>& here,
                         const Numbered<T>& values, bool absent = false) {
      there.push_back(absent ? Tensor{} : values.there());
      here.push_back(absent ? Tensor{} : values.here());
    };
    push(dy, dy_here, given);
    push(x, x_here, input);
    push(dw, dw_here, old_w, i == 3);
    push(db, db_here, old_b, i == 4);
    flags.push_back({i % 2 == 0, i % 3 == 0});
  }
  ops::weight_gradients(dy_here, x_here, dw_here, db_here, flags);
  ops::weight_gradients(dy, x, dw, db, flags);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    CAPTURE(i);
    const auto same = [&](const Tensor& got, const Tensor& wanted) {
      CHECK(got.defined() == wanted.defined());
      if (got.defined()) {
        CHECK(off(download<T>(got), wanted.to_vector<double>(), allowed<T>(most_rows, 1), 1) == "");
      }
    };
    same(dw[i], dw_here[i]);
    same(db[i], db_here[i]);
  }
}

TEST_CASE_TEMPLATE("CUDA: the last Linear with its loss", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const ExactProducts exact;
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{128, 64, 10}, Sizes{0, 3, 5}}) {
    const Numbered<T> x = numbered<T>({s.rows, s.in}, 1, 0.1, 0.9);
    const Numbered<T> w = numbered<T>({s.out, s.in}, 2, -0.2, 0.2);
    const Numbered<T> bias = numbered<T>({s.out}, 3);
    const Numbered<T> weights = numbered<T>({s.out}, 4, 0.5, 2);
    std::vector<std::int64_t> labels;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      labels.push_back(row % s.out);
    }
    const Tensor labels_here = Tensor::from(labels, {s.rows});
    for (int variant = 0; variant < 8; ++variant) {
      const bool with_bias = variant % 2 == 0, with_weights = variant / 2 % 2 == 0;
      const bool with_dx = variant / 4 == 0;
      INFO(s.rows, ", ", s.in, " to ", s.out, ", variant ", variant);
      const ops::CrossEntropyArgs loss_args{.label_smoothing = with_weights ? 0.1 : 0.0};
      const ops::ActivationArgs args{.act = math::Sigmoid{},
                                     .dropout = {math::dropout_mask(0.3, 5, 1, 2)},
                                     .stored = dtype_of<T>};
      Tensor loss = Tensor::zeros({}, DType::float64);
      Tensor dlogits = Tensor::zeros({s.rows, s.out}, DType::float64);
      Tensor dx = with_dx ? Tensor::zeros({s.rows, s.in}, DType::float64) : Tensor{};
      ops::linear_cross_entropy(x.here(), w.here(), with_bias ? bias.here() : Tensor{}, labels_here,
                                with_weights ? weights.here() : Tensor{}, x.here(), loss, dlogits,
                                dx, loss_args, args);
      Placed<T> loss_there({}), dlogits_there({s.rows, s.out}), dx_there({s.rows, s.in});
      Tensor nothing;
      ops::linear_cross_entropy(
          x.there(), w.there(), with_bias ? bias.there() : Tensor{}, labels_here.to(Device::cuda()),
          with_weights ? weights.there() : Tensor{}, x.there(), loss_there.tensor,
          dlogits_there.tensor, with_dx ? dx_there.tensor : nothing, loss_args, args);
      const double roundings = allowed<T>(s.in + s.out, 8);
      CHECK(off(loss_there.values(), loss.to_vector<double>(), roundings, 1) == "");
      const double rows = static_cast<double>(std::max<std::int64_t>(1, s.rows));
      CHECK(off(dlogits_there.values(), dlogits.to_vector<double>(), roundings, 2 / rows) == "");
      if (with_dx) {
        CHECK(off(dx_there.values(), dx.to_vector<double>(), roundings, 2 / rows) == "");
      }
    }
  }
}

}  // namespace
}  // namespace sinter::on_device
