// The gradients of several Linears' parameters in one kernel, stored or used up on the spot.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tiles.h"

namespace sinter::on_device {
namespace {

struct Layer {
  LinearSizes size;
  Operand dy;
  Operand x;
  Layer(const LinearSizes& s, std::uint64_t seed, std::int64_t shift)
      : size(s), dy({s.rows, s.out}, seed, shift), x({s.rows, s.in}, seed + 1, shift) {}

  Product weight_gradient() const {
    return product_of(size.out, size.in, size.rows, transposed(dy.value, size.out),
                      at(x.value, size.in));
  }
  Product bias_gradient() const {
    Product sums{std::vector<double>(static_cast<std::size_t>(size.out)),
                 std::vector<double>(static_cast<std::size_t>(size.out))};
    for (std::size_t i = 0; i < dy.value.size(); ++i) {
      sums.value[i % sums.value.size()] += dy.value[i];
      sums.size[i % sums.value.size()] += std::abs(dy.value[i]);
    }
    return sums;
  }
};

void add(Product& to, double value) {
  for (std::size_t i = 0; i < to.value.size(); ++i) {
    to.value[i] += value;
    to.size[i] += std::abs(value);
  }
}

std::vector<Layer> layers_of(const std::vector<LinearSizes>& sizes) {
  std::vector<Layer> layers;
  std::uint64_t seed = 1;
  for (const LinearSizes& s : sizes) {
    layers.emplace_back(s, seed, seed % 5 == 4 ? 1 : 0);
    seed += 2;
  }
  return layers;
}

struct Gradients {
  std::vector<Tensor> dy, x, dw, db;
  std::vector<ops::WeightGradientFlags> flags;
  std::vector<Placed<float>> weight, bias;

  void run() { ops::weight_gradients(dy, x, dw, db, flags); }
};

TEST_CASE("CUDA tiles: weights' gradients of many linears, added up or not, or not wanted") {
  if (!has_gpu()) {
    return;
  }
  const AllCores all_cores;
  const Fallback error(FallbackPolicy::error);
  for (const bool large : {false, true}) {
    std::vector<LinearSizes> sizes = linear_sizes(3, 40);
    if (large) {  // many rows, few tiles
      sizes = {{513, 40, 20}, {1024, 784, 128}, {1024, 128, 10}};
    }
    const std::vector<Layer> layers = layers_of(sizes);
    Gradients all;
    constexpr double before = 0.75;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      all.dy.push_back(layer.dy.tensor());
      all.x.push_back(layer.x.tensor());
      const std::int64_t shift = i % 4 == 3 ? 3 : 0;
      all.weight.emplace_back(Shape{layer.size.out, layer.size.in}, shift);
      all.bias.emplace_back(Shape{layer.size.out}, shift);
      all.flags.push_back({i % 3 == 1, i % 5 == 1});
      const bool wants_weight = i % 7 != 5, wants_bias = i % 7 != 6;
      if (i % 3 == 1 && wants_weight) {
        all.weight.back().tensor.fill(before);
      }
      if (i % 5 == 1 && wants_bias) {
        all.bias.back().tensor.fill(before);
      }
      all.dw.push_back(wants_weight ? all.weight.back().tensor : Tensor{});
      all.db.push_back(wants_bias ? all.bias.back().tensor : Tensor{});
    }
    all.run();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      INFO("layer ", i, ": ", layer.size.rows, " x ", layer.size.in, " -> ", layer.size.out);
      CHECK(all.weight[i].damage() == "");
      CHECK(all.bias[i].damage() == "");
      if (all.dw[i].defined()) {
        Product want = layer.weight_gradient();
        add(want, all.flags[i].accumulate_weight ? before : 0);
        CHECK(worst_error(all.weight[i].values(), want, layer.size.rows) < 1);
      } else {
        CHECK(std::isnan(all.weight[i].values()[0]));
      }
      if (all.db[i].defined()) {
        Product want = layer.bias_gradient();
        add(want, all.flags[i].accumulate_bias ? before : 0);
        CHECK(worst_error(all.bias[i].values(), want, layer.size.rows) < 1);
      } else {
        CHECK(std::isnan(all.bias[i].values()[0]));
      }
    }
  }
}

TEST_CASE("CUDA tiles: two linears that share their parameters add to one gradient") {
  if (!has_gpu()) {
    return;
  }
  const Fallback error(FallbackPolicy::error);
  const std::vector<Layer> layers = layers_of({{20, 24, 40}, {9, 24, 40}, {33, 24, 40}});
  Placed<float> dw({40, 24}), db({40});
  std::vector<Tensor> dy, x, all_dw(3, dw.tensor), all_db(3, db.tensor);
  Product want{std::vector<double>(40 * 24), std::vector<double>(40 * 24)};
  for (const Layer& layer : layers) {
    dy.push_back(layer.dy.tensor());
    x.push_back(layer.x.tensor());
    const Product one = layer.weight_gradient();
    for (std::size_t i = 0; i < want.value.size(); ++i) {
      want.value[i] += one.value[i];
      want.size[i] += one.size[i];
    }
  }
  ops::weight_gradients(dy, x, all_dw, all_db, {{false, false}, {true, true}, {true, true}});
  CHECK(worst_error(dw.values(), want, 62) < 1);
}

// Parameters and state of one Linear, twice.
struct Trained {
  Tensor weight, bias;
  Tensor weight_state[2], bias_state[2];

  Trained(const LinearSizes& s, int states, std::int64_t shift) {
    const auto made = [&](const Shape& shape, std::uint64_t seed) {
      return Placed<float>(upload(random_values<float>(shape.numel(), seed, 0, 1), shape), shift)
          .tensor;
    };
    weight = made({s.out, s.in}, 11);
    bias = made({s.out}, 12);
    for (int i = 0; i < states; ++i) {
      weight_state[i] = made({s.out, s.in}, 13 + std::uint64_t(i));
      bias_state[i] = made({s.out}, 15 + std::uint64_t(i));
    }
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors;
    for (const Tensor& t :
         {weight, bias, weight_state[0], weight_state[1], bias_state[0], bias_state[1]}) {
      if (t.defined()) {
        tensors.push_back(t);
      }
    }
    return tensors;
  }
};

template <class Args, class Flat>
void check_update(const Args& args, int states, Flat flat) {
  const std::vector<Layer> layers =
      layers_of({{128, 784, 256}, {128, 256, 128}, {128, 128, 10}, {17, 35, 21}, {300, 12, 9}});
  std::vector<Trained> here, there;
  std::vector<cuda::tile::UpdatedLinear> linears;
  std::vector<Tensor> dy, x, dw, db;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    here.emplace_back(layer.size, states, i % 2 == 1 ? 1 : 0);
    there.emplace_back(layer.size, states, 0);
    const Trained& t = here.back();
    linears.push_back({layer.dy.tensor(),
                       layer.x.tensor(),
                       t.weight,
                       i == 4 ? Tensor{} : t.bias,
                       {t.weight_state[0], t.weight_state[1]},
                       {t.bias_state[0], t.bias_state[1]}});
    dy.push_back(layer.dy.tensor());
    x.push_back(layer.x.tensor());
    dw.push_back(poisoned<float>(t.weight.shape()));
    db.push_back(poisoned<float>(t.bias.shape()));
  }
  cuda::tile::update_linears(linears, args);
  ops::weight_gradients(dy, x, dw, db, std::vector<ops::WeightGradientFlags>(layers.size()));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Trained& t = there[i];
    flat(t.weight, dw[i], t.weight_state);
    if (i != 4) {
      flat(t.bias, db[i], t.bias_state);
    }
    const std::vector<Tensor> got = here[i].all(), want = t.all();
    for (std::size_t k = 0; k < got.size(); ++k) {
      INFO("layer ", i, ", tensor ", k);
      CHECK(unlike(download<float>(got[k]), download<float>(want[k])) == "");
    }
  }
}

TEST_CASE("CUDA tiles: a parameter updated on the spot has the bits of the flat update") {
  if (!has_gpu()) {
    return;
  }
  const Fallback error(FallbackPolicy::error);
  const auto sgd = [](Tensor& p, const Tensor& g, const ops::SgdArgs& args, Tensor momentum) {
    ops::sgd_update(p, g, momentum, args);
  };
  for (const bool nesterov : {false, true}) {
    const ops::SgdArgs args{math::sgd_constants<double>(
        {.lr = 0.03, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.02, .nesterov = nesterov},
        false)};
    check_update(args, 1,
                 [&](Tensor& p, const Tensor& g, Tensor(&state)[2]) { sgd(p, g, args, state[0]); });
  }
  const ops::SgdArgs plain{math::sgd_constants<double>({.lr = 0.03, .weight_decay = 0.02}, true)};
  check_update(plain, 0, [&](Tensor& p, const Tensor& g, Tensor(&)[2]) { sgd(p, g, plain, {}); });
  for (const bool decoupled : {false, true}) {
    const ops::AdamArgs args{math::adam_constants<double>(
        {.lr = 0.01, .weight_decay = 0.1, .decoupled = decoupled}, 0.271, 0.002997)};
    check_update(args, 2, [&](Tensor& p, const Tensor& g, Tensor(&state)[2]) {
      ops::adam_update(p, g, state[0], state[1], args);
    });
  }
}

}  // namespace
}  // namespace sinter::on_device
