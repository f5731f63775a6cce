// Optimizers that take over the gradients which a backward put off: the same bits as with gradients
// computed first.
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/autograd/deferred.h>
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// A Linear that puts its parameters' gradients off, as small ones do on a GPU.
Tensor deferring(const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = linear(detached(x), detached(w), b.defined() ? detached(b) : b);
  record("deferring", {x, w, b}, y, [x = Saved(x), w = Saved(w)](Backward& back) {
    back.write(0, back.saved(x).shape(), [&](Tensor& dx, bool accumulate) {
      ops::matmul(back.grad(), back.saved(w), dx, {.accumulate = accumulate});
    });
    back.defer_weights(1, 2, back.grad(), x);
  });
  return y;
}
Tensor at_once(const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b); }

using Layer = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

struct Net {
  Sequential model{Linear{3, 5}, Linear{5, 4, {.bias = false}}, Linear{4, 2}};
  Tensor x = Tensor::from({0.1f, 0.5f, -1.0f, 2.0f, 0.3f, -0.7f}, {2, 3});
  Tensor target = Tensor::from({1.0f, 0.0f, -1.0f, 0.5f}, {2, 2});
  std::unique_ptr<Tape> tape;  // of the latest backward: its end would compute what is put off

  void backward(Layer layer) {
    const Parameters p = model.parameters();
    auto latest = std::make_unique<Tape>();
    Tensor h = layer(x, p[0].value(), p[1].value());
    h = layer(tanh(h), p[2].value(), {});
    latest->backward(mse_loss(layer(h, p[3].value(), p[4].value()), target));
    tape = std::move(latest);
  }
  std::vector<float> weights() {
    std::vector<float> out;
    for (const NamedParameter& p : model.parameters()) {
      const auto values = p.value().to_vector<float>();
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }
};

template <class Make, class Between>
std::vector<float> trained(Layer layer, Make make, Between between) {
  manual_seed(5);
  Net net;
  auto optimizer = make(net.model.parameters());
  for (int step = 0; step < 4; ++step) {
    net.backward(layer);
    between(net, layer);
    optimizer.step();
    CHECK_FALSE(net.model.parameters()[0].grad().defined());
  }
  CHECK(optimizer.steps() == 4);
  return net.weights();
}

template <class Make, class Between>
void check_same(Make make, Between between) {
  CHECK(trained(deferring, make, between) == trained(at_once, make, between));
}

const auto nothing = [](Net&, Layer) {};
const auto sgd = [](Parameters p) { return SGD{std::move(p), {.lr = 0.1}}; };
const auto momentum = [](Parameters p) {
  return SGD{std::move(p), {.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01}};
};
const auto adam = [](Parameters p) { return Adam{std::move(p), {.lr = 0.1}}; };
const auto grouped = [](Parameters p) {
  return AdamW{weight_decay_groups(p), {.lr = 0.1, .weight_decay = 0.5}};
};
const auto adam_w = [](Parameters p) { return AdamW{std::move(p), {.lr = 0.1}}; };

}  // namespace

TEST_CASE("a step that takes over gradients gives the bits of one that reads them") {
  check_same(sgd, nothing);
  check_same(momentum, nothing);
  check_same(adam, nothing);
  check_same(adam_w, nothing);
  check_same(grouped, nothing);
}

TEST_CASE("gradients that somebody looked at, added to or dropped are still the right ones") {
  check_same(momentum, [](Net& net, Layer) { (void)net.model.parameters()[2].grad(); });
  check_same(momentum, [](Net& net, Layer layer) { net.backward(layer); });
  check_same(adam, [](Net& net, Layer) {
    Tensor bias = net.model.parameters()[4].value();
    bias.clear_grad();
  });
}

TEST_CASE("an optimizer of some of the parameters leaves the others their gradients") {
  const auto run = [](Layer layer) {
    manual_seed(5);
    Net net;
    Parameters all = net.model.parameters();
    SGD first{{all[0], all[1]}, {.lr = 0.1, .momentum = 0.9}};
    Adam rest{{all[2], all[3], all[4]}, {.lr = 0.1}};
    for (int step = 0; step < 3; ++step) {
      net.backward(layer);
      first.step();
      CHECK(all[3].grad().defined());
      rest.step();
    }
    return net.weights();
  };
  CHECK(run(deferring) == run(at_once));
}
