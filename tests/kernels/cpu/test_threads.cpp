// The same bytes for any number of threads: every op of the table, on tensors large enough to be
// cut into pieces.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "batch_norm_runs.h"
#include "compare.h"
#include "image_runs.h"
#include "optimizer_runs.h"
#include "runs.h"
#include "sequence_runs.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

// Empty if `run` gives the same bytes with 1, 2, 3 and 4 threads, and again with the same number.
std::string differs(const std::function<Results()>& run) {
  const KeepThreads keep;
  Results first;
  for (const int threads : {1, 2, 3, 4, 4}) {
    set_num_threads(threads);
    const Results results = run();
    if (first.empty()) {
      first = results;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string difference = different(first[i], results[i]);
      if (!difference.empty()) {
        return text(threads, " threads, result ", i, ": ", difference);
      }
    }
  }
  return {};
}

// Runs of the ops with inputs in T, by the op's name.
template <class T>
class Runs {
 public:
  NamedRuns all;

  Runs() {
    element_wise();
    arithmetic();
    sums();
    matrices();
    losses();
    rows();
    inference_and_data();
    for (auto* const runs :
         {image_runs<T>, batch_norm_runs<T>, optimizer_runs<T>, sequence_runs<T>}) {
      std::ranges::move(runs(numbers_), std::back_inserter(all));
    }
  }

 private:
  Tensor random(const Shape& shape) { return random_tensor<T>(shape, numbers_, -3, 3); }
  static Tensor empty(const Shape& shape) { return Tensor::full(shape, -77, dtype_of<T>); }
  template <class Op>
  void add(const Op& op, std::function<Results()> run) {
    all.emplace_back(op.name, std::move(run));
  }

  void element_wise() {
    const ops::ActivationArgs args{.act = math::Tanh{},
                                   .dropout = {math::dropout_mask(0.3, 5, 1, 2), 11}};
    const Tensor x = random({150001});
    const Tensor dy = random({150001});
    add(ops::activation_forward, [=] {
      Tensor y = empty({150001});
      ops::activation_forward(x, y, args);
      return Results{y};
    });
    add(ops::activation_backward, [=] {
      Tensor dx = empty({150001});
      ops::activation_backward(x, dy, dx, args);
      return Results{dx};
    });
    const Tensor tall = random({901, 167}), tall_dy = random({901, 167});
    const Tensor wide = random({2, 75001}), wide_dy = random({2, 75001});
    add(ops::activation_backward_bias, [=] {
      Results results;
      for (const auto& [kept, incoming] : {std::pair{tall, tall_dy}, {wide, wide_dy}}) {
        for (const bool accumulate : {false, true}) {
          Tensor dx = empty(kept.shape());
          Tensor sums = empty({kept.size(1)});
          ops::activation_backward_bias(kept, incoming, dx, sums, args, accumulate);
          results.insert(results.end(), {dx, sums});
        }
      }
      return results;
    });
    add(ops::dropout, [=] {
      Tensor y = empty({150001});
      ops::dropout(x, y, args.dropout);
      return Results{y};
    });
    add(ops::cast, [=] {
      Tensor y = Tensor::empty({150001}, DType::float64);
      ops::cast(x, y);
      return Results{y};
    });
    add(ops::affine, [=] {
      Tensor y = empty({150001});
      ops::affine(x, y, 0.3, 0.7);
      return Results{y};
    });
    add(ops::accumulate, [=] {
      Tensor y = x.clone();
      ops::accumulate(dy, y);
      return Results{y};
    });
  }

  void arithmetic() {
    const Tensor a = random({301, 501});
    const Tensor b = random({301, 501});
    const Tensor row = random({501});
    const Tensor column = random({301, 1});
    for (const auto* op : {&ops::add, &ops::subtract, &ops::multiply, &ops::divide}) {
      add(*op, [=] {
        Results results;
        for (const Tensor& other : {b, row, column}) {
          Tensor y = empty({301, 501});
          (*op)(a, other, y);
          results.push_back(y);
        }
        return results;
      });
    }
  }

  void sums() {
    const Tensor x = random({700, 3, 211});
    add(ops::sum_to, [=] {
      Results results;
      for (const Shape& shape : {Shape{}, Shape{211}, Shape{3, 211}, Shape{700, 1, 211},
                                 Shape{700, 3, 1}, Shape{3, 1}, Shape{700, 3, 211}}) {
        for (const bool accumulate : {false, true}) {
          Tensor y = Tensor::full(shape, 2, dtype_of<T>);
          ops::sum_to(x, y, accumulate);
          results.push_back(y);
        }
      }
      return results;
    });
  }

  void matrices() {
    const Tensor square = random({403, 403});
    const Tensor tall = random({1203, 403});
    const Tensor flat = random({403, 1203});
    add(ops::matmul, [=] {
      Results results;
      const auto product = [&](const Tensor& a, const Tensor& b, const Shape& shape, bool ta,
                               bool tb) {
        for (const bool accumulate : {false, true}) {
          Tensor c = Tensor::full(shape, 2, dtype_of<T>);
          ops::matmul(a, b, c, {.transpose_a = ta, .transpose_b = tb, .accumulate = accumulate});
          results.push_back(c);
        }
      };
      product(tall, square, {1203, 403}, false, false);
      product(flat, square, {1203, 403}, true, true);
      product(square, flat, {403, 1203}, true, false);
      product(square, tall, {403, 1203}, false, true);
      product(tall, tall, {403, 403}, true, false);
      return results;
    });
    const Tensor bias = random({1203});
    add(ops::linear_forward, [=] {
      const ops::ActivationArgs args{.act = math::GELU{},
                                     .dropout = {math::dropout_mask(0.5, 1, 0, 0), 3}};
      Tensor z = empty({403, 1203});
      Tensor wide = empty({403, 1203});
      ops::linear_forward(square, tall, bias, z, wide, args);
      Tensor none;
      Tensor high = empty({1203, 403});
      ops::linear_forward(tall, square, none, none, high, args);
      return Results{z, wide, high};
    });
    backward(square, tall);
  }

  void backward(const Tensor& square, const Tensor& tall) {
    const ops::ActivationArgs args{.act = math::Tanh{},
                                   .dropout = {math::dropout_mask(0.5, 1, 0, 0), 3}};
    add(ops::linear_backward_input, [=] {
      Tensor dx = empty({1203, 403});
      ops::linear_backward_input(tall, square, tall, dx, args);
      return Results{dx};
    });
    add(ops::weight_gradients, [=] {
      std::vector<Tensor> dw{empty({403, 403}), empty({403, 403})};
      std::vector<Tensor> db{empty({403}), empty({403})};
      ops::weight_gradients(std::vector{tall, square}, std::vector{tall, square}, dw, db,
                            {{}, {true, true}});
      return Results{dw[0], dw[1], db[0], db[1]};
    });
    const Tensor labels = random_integers<std::int64_t>({1203}, numbers_, 0, 402);
    add(ops::linear_cross_entropy, [=] {
      Tensor loss = empty({}), dlogits = empty({1203, 403}), dx = empty({1203, 403}), none;
      ops::linear_cross_entropy(tall, square, none, labels, none, tall, loss, dlogits, dx, {},
                                args);
      return Results{loss, dlogits, dx};
    });
  }

  void losses() {
    const Tensor logits = random({1003, 101});
    const Tensor target = random({1003, 101});
    const Tensor labels = random_integers<std::int64_t>({1003}, numbers_, 0, 100);
    const Tensor weights = random_tensor<T>({101}, numbers_, 0.5, 2);
    for (const auto reduction : {ops::Reduction::mean, ops::Reduction::none}) {
      const Shape shape = reduction == ops::Reduction::none ? Shape{1003} : Shape{};
      add(ops::cross_entropy, [=] {
        Tensor loss = empty(shape);
        Tensor grad = empty({1003, 101});
        ops::cross_entropy(logits, labels, weights, loss, grad,
                           {.reduction = reduction, .label_smoothing = 0.1});
        return Results{loss, grad};
      });
      add(ops::nll_loss, [=] {
        Tensor loss = empty(shape);
        Tensor grad = empty({1003, 101});
        ops::nll_loss(logits, labels, weights, loss, grad, {.reduction = reduction});
        return Results{loss, grad};
      });
      add(ops::pointwise_loss, [=] {
        Tensor loss = reduction == ops::Reduction::none ? empty({1003, 101}) : empty({});
        Tensor grad = empty({1003, 101});
        ops::pointwise_loss(logits, target, weights, loss, grad,
                            {math::BinaryCrossEntropy{}, reduction, logits.numel()});
        return Results{loss, grad};
      });
    }
  }

  void rows() {
    const Tensor x = random({1003, 202}), dy = random({1003, 202}), half = random({1003, 101});
    const Tensor weight = random({202}), bias = random({202});
    const Tensor rstd = random_tensor<T>({1003}, numbers_, 0.5, 2), mean = random({1003});
    add(ops::softmax_backward, [=] {
      Tensor dx = empty({1003, 202});
      ops::softmax_backward(x, dy, dx, {.log = true});
      return Results{dx};
    });
    const ops::ActivationArgs gate{math::SiLU{}, {math::dropout_mask(0.3, 5, 6, 7)}};
    add(ops::softmax, [=] {
      Tensor y = empty({1003, 202});
      ops::softmax(x, y, {.dropout = gate.dropout});
      return Results{y};
    });
    add(ops::softmax_backward, [=] {
      Tensor dx = empty({1003, 202});
      ops::softmax_backward(x, dy, dx, {.dropout = gate.dropout});
      return Results{dx};
    });
    for (const ops::ActivationArgs& tail : {ops::ActivationArgs{}, gate}) {
      add(ops::norm_forward, [=] {
        Tensor y = empty({1003, 202}), of_row = empty({1003}), inverse = empty({1003});
        ops::norm_forward(x, weight, bias, y, of_row, inverse, {1e-5, tail});
        return Results{y, of_row, inverse};
      });
      add(ops::norm_backward, [=] {
        Tensor dx = empty({1003, 202}), dw = empty({202}), db = bias.clone();
        ops::norm_backward(x, weight, bias, mean, rstd, dy, dx, dw, db, tail,
                           {.accumulate_bias = true});
        return Results{dx, dw, db};
      });
    }
    add(ops::glu_forward, [=] {
      Tensor y = empty({1003, 101});
      ops::glu_forward(x, y, gate);
      return Results{y};
    });
    add(ops::glu_backward, [=] {
      Tensor dx = empty({1003, 202});
      ops::glu_backward(x, half, dx, gate);
      return Results{dx};
    });
  }

  void inference_and_data() {
    const Tensor x = random({1003, 101});
    add(ops::softmax, [=] {
      Tensor y = empty({1003, 101});
      ops::softmax(x, y, {});
      return Results{y};
    });
    add(ops::argmax, [=] {
      Tensor y = Tensor::full({1003}, -77, DType::int64);
      ops::argmax(x, y);
      return Results{y};
    });
    const Tensor bytes = random_integers<std::uint8_t>({100, 784}, numbers_, 0, 255);
    const Tensor indices = random_integers<std::int64_t>({301}, numbers_, 0, 99);
    add(ops::gather_normalise, [=] {
      Tensor y = empty({301, 784});
      ops::gather_normalise(bytes, indices, y, {.mean = 0.1307, .std = 0.3081});
      return Results{y};
    });
    add(ops::gather_rows, [=] {
      Tensor y = Tensor::full({301, 784}, 7, DType::uint8);
      ops::gather_rows(bytes, indices, y);
      return Results{y};
    });
    const std::vector<Tensor> scalars{random({}), random({}), random({1})};
    add(ops::stack, [=] {
      Tensor y = empty({3});
      ops::stack(scalars, y);
      return Results{y};
    });
  }
  Numbers numbers_{77};
};

TEST_CASE_TEMPLATE("every op gives the same bytes for 1, 2, 3 and 4 threads", T, float, double) {
  const Runs<T> runs;
  std::set<std::string> covered;
  for (const auto& one : runs.all) {
    CAPTURE(one.first);
    CHECK(differs(one.second) == "");
    covered.insert(one.first);
  }
  for (const ops::OpInfo& op : ops::table()) {
    CAPTURE(std::string(op.name));
    CHECK(covered.contains(op.name));
  }
}

TEST_CASE("a product in the most pieces there are") {
  Numbers numbers(3);
  const Tensor a = random_tensor<float>({1301, 901}, numbers, -1, 1);
  const Tensor b = random_tensor<float>({901, 903}, numbers, -1, 1);
  CHECK(differs([&] {
          Tensor c = Tensor::zeros({1301, 903});
          ops::matmul(a, b, c, {});
          return Results{c};
        }) == "");
}

}  // namespace
}  // namespace sinter
