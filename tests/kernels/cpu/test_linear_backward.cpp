// What is made of several ops on the CPU is, bit for bit, those ops one after another: a Linear's
// backward, and the last Linear with its loss.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "../../runtime/sentence.h"
#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

TEST_CASE_TEMPLATE("the gradient of a Linear's input is a product and the pass below", T, float,
                   double) {
  Numbers numbers(1);
  for (const auto& [rows, in, out] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {130, 33, 10}, {0, 3, 5}}) {
    const Tensor dy = random_tensor<T>({rows, out}, numbers, -1, 1);
    const Tensor w = random_tensor<T>({out, in}, numbers, -1, 1);
    const Tensor kept = random_tensor<T>({rows, in}, numbers, 0.1, 0.9);
    const ops::ActivationArgs args{.act = math::Sigmoid{},
                                   .dropout = {math::dropout_mask(0.4, 5, 1, 2)},
                                   .stored = dtype_of<T>};
    Tensor product = Tensor::zeros({rows, in}, dtype_of<T>);
    ops::matmul(dy, w, product, {});
    Tensor dx = Tensor::full({rows, in}, -77, dtype_of<T>);
    ops::linear_backward_input(dy, w, Tensor{}, dx, args);
    CHECK(different(dx, product) == "");
    Tensor below = Tensor::zeros({rows, in}, dtype_of<T>);
    ops::activation_backward(kept, product, below, args);
    ops::linear_backward_input(dy, w, kept, dx, args);
    CHECK(different(dx, below) == "");
  }
}

TEST_CASE("the gradients of many Linears' parameters are those of each") {
  Numbers numbers(2);
  std::vector<Tensor> dy, x, dw, db, dw_wanted, db_wanted;
  std::vector<ops::WeightGradientFlags> flags;
  std::int64_t i = 0;
  for (const auto& [rows, in, out] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {130, 33, 10}, {0, 3, 5}, {40, 8, 8}}) {
    dy.push_back(random_tensor<float>({rows, out}, numbers, -1, 1));
    x.push_back(random_tensor<float>({rows, in}, numbers, -1, 1));
    flags.push_back({i % 2 == 0, i % 3 == 0});
    dw.push_back(i == 1 ? Tensor{} : random_tensor<float>({out, in}, numbers, -1, 1));
    db.push_back(i == 2 ? Tensor{} : random_tensor<float>({out}, numbers, -1, 1));
    dw_wanted.push_back(i == 1 ? Tensor{} : dw.back().clone());
    db_wanted.push_back(i == 2 ? Tensor{} : db.back().clone());
    if (i != 1) {
      ops::matmul(dy.back(), x.back(), dw_wanted.back(),
                  {.transpose_a = true, .accumulate = flags.back().accumulate_weight});
    }
    if (i != 2) {
      ops::sum_to(dy.back(), db_wanted.back(), flags.back().accumulate_bias);
    }
    ++i;
  }
  const std::uint64_t before = dw[0].version();
  ops::weight_gradients(dy, x, dw, db, flags);
  CHECK(dw[0].version() > before);
  for (std::size_t k = 0; k < dw.size(); ++k) {
    CAPTURE(k);
    CHECK((!dw[k].defined() || different(dw[k], dw_wanted[k]) == ""));
    CHECK((!db[k].defined() || different(db[k], db_wanted[k]) == ""));
  }
}

TEST_CASE("no Linear at all has no gradients") {
  std::vector<Tensor> none;
  ops::weight_gradients(none, none, none, none, {});
}

TEST_CASE("the last Linear with its loss is a Linear, the loss and the Linear's backward") {
  Numbers numbers(3);
  const Tensor x = random_tensor<float>({66, 20}, numbers, 0.1, 0.9);
  const Tensor w = random_tensor<float>({10, 20}, numbers, -1, 1);
  const Tensor bias = random_tensor<float>({10}, numbers, -1, 1);
  const Tensor weights = random_tensor<float>({10}, numbers, 0.5, 2);
  const Tensor labels = random_integers<std::int64_t>({66}, numbers, 0, 9);
  const ops::ActivationArgs args{.act = math::Tanh{}, .dropout = {}, .stored = DType::float32};
  const ops::CrossEntropyArgs loss_args{.label_smoothing = 0.1};
  for (int variant = 0; variant < 8; ++variant) {
    CAPTURE(variant);
    const Tensor shift = variant % 2 == 0 ? bias : Tensor{};
    const Tensor of_classes = variant / 2 % 2 == 0 ? weights : Tensor{};
    Tensor none, logits = Tensor::zeros({66, 10}), loss = Tensor::zeros({});
    Tensor grad = Tensor::zeros({66, 10}), below = Tensor::zeros({66, 20});
    ops::linear_forward(x, w, shift, none, logits, {});
    ops::cross_entropy(logits, labels, of_classes, loss, grad, loss_args);
    ops::linear_backward_input(grad, w, x, below, args);
    Tensor got_loss = Tensor::full({}, -77), dlogits = Tensor::full({66, 10}, -77);
    Tensor dx = variant / 4 == 0 ? Tensor::full({66, 20}, -77) : Tensor{};
    ops::linear_cross_entropy(x, w, shift, labels, of_classes, x, got_loss, dlogits, dx, loss_args,
                              args);
    CHECK(different(got_loss, loss) == "");
    CHECK(different(dlogits, grad) == "");
    CHECK((!dx.defined() || different(dx, below) == ""));
  }
  Tensor loss = Tensor::zeros({}), dlogits = Tensor::zeros({66, 10}), none;
  const Tensor bad = Tensor::full({66}, 10, DType::int64);
  check_refused(
      [&] {
        ops::linear_cross_entropy(x, w, bias, bad, none, none, loss, dlogits, none, loss_args, {});
      },
      {"cross_entropy", "label 10", "row 0", "labels start at 0"});
}

}  // namespace
}  // namespace sinter
