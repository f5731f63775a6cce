// Weight gradients that are put off, and gradients taken through the pass below: functions of one's
// own use them here as the layers do on a GPU, so that they are tested on any machine.
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/deferred.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/gradcheck.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

// linear(x, w, b) that puts its parameters' gradients off.
Tensor deferring(const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = linear(detached(x), detached(w), b.defined() ? detached(b) : b);
  record("deferring", {x, w, b}, y, [x = Saved(x), w = Saved(w)](Backward& back) {
    back.write(0, back.saved(x).shape(), [&](Tensor& dx, bool accumulate) {
      ops::matmul(back.grad(), back.saved(w), dx, {.accumulate = accumulate});
    });
    REQUIRE(back.can_defer(1, 2));
    back.defer_weights(1, 2, back.grad(), x);
  });
  return y;
}

struct Net {
  Tensor x = tensor({5, 3});
  Tensor w1 = leaf({4, 3}, 2, 2), b1 = leaf({4}, 2, 3);
  Tensor w2 = leaf({2, 4}, 2, 4), b2 = leaf({2}, 2, 5);
  Tensor target = tensor({5, 2}, 2, 6);
  std::unique_ptr<Tape> tape;  // of the latest backward: its end would compute what is put off

  template <class Layer>
  void backward(Layer layer) {
    auto latest = std::make_unique<Tape>();
    latest->backward(mse_loss(layer(layer(x, w1, b1), w2, b2), target));
    tape = std::move(latest);
  }
  std::vector<Numbers> gradients() {
    std::vector<Numbers> out;
    for (const Tensor* t : {&w1, &b1, &w2, &b2}) {
      out.push_back(t->grad().to_vector<double>());
    }
    return out;
  }
};

const auto plain = [](const Tensor& x, const Tensor& w, const Tensor& b) {
  return linear(x, w, b);
};

TEST_CASE("gradients that are put off are those computed at once") {
  Net net, other;
  net.backward(deferring);
  CHECK(net.w1.leaf()->pending != nullptr);
  other.backward(plain);
  CHECK(net.gradients() == other.gradients());
  CHECK(net.w1.leaf()->pending == nullptr);
}

TEST_CASE("a second backward adds to what is pending") {
  Net net, other;
  for (Net* each : {&net, &other}) {
    for (int i = 0; i < 2; ++i) {
      each == &net ? each->backward(deferring) : each->backward(plain);
    }
  }
  CHECK(net.gradients() == other.gradients());
  // And one that is not put off adds too.
  net.backward(plain);
  other.backward(plain);
  CHECK(net.gradients() == other.gradients());
  net.backward(deferring);
  net.backward(plain);
  other.backward(plain);
  other.backward(plain);
  CHECK(net.gradients() == other.gradients());
}

TEST_CASE("weights that two layers share get both shares") {
  const auto gradients = [](auto layer) {
    Tensor x = tensor({5, 3});
    Tensor w = leaf({3, 3}, 2, 2), b = leaf({3}, 2, 3);
    Tape tape;
    tape.backward(sum(layer(layer(x, w, b), w, b)));
    return std::vector{w.grad().to_vector<double>(), b.grad().to_vector<double>()};
  };
  CHECK(gradients(deferring) == gradients(plain));
}

TEST_CASE("a dropped gradient is not computed, others of the group are") {
  Net net, other;
  net.backward(deferring);
  other.backward(plain);
  net.w1.clear_grad();
  CHECK_FALSE(net.w1.grad().defined());
  CHECK(net.w2.grad().to_vector<double>() == other.w2.grad().to_vector<double>());
  CHECK_FALSE(net.w1.grad().defined());
  // The next backward overwrites what was dropped, and adds to the rest.
  net.backward(deferring);
  CHECK(net.w1.grad().to_vector<double>() == other.w1.grad().to_vector<double>());
}

TEST_CASE("no bias, and parameters that are not trained") {
  Tensor x = tensor({5, 3});
  Tensor w = leaf({4, 3}, 2, 2), frozen = tensor({4}, 2, 3);
  for (const Tensor& b : {Tensor{}, frozen}) {
    w.clear_grad();
    Tape tape;
    tape.backward(sum(deferring(x, w, b)));
    const auto deferred = w.grad().to_vector<double>();
    w.clear_grad();
    Tape again;
    again.backward(sum(linear(x, w, b)));
    CHECK(deferred == w.grad().to_vector<double>());
  }
}

TEST_CASE("an input that was written to before its gradient is computed is an error") {
  Net net;
  net.backward(deferring);
  net.x += 1.0;
  check_error([&] { (void)net.w1.grad(); }, {"deferring", "[5, 3]", "in place"});
  // None of them has a gradient then, and the next backward starts afresh.
  CHECK_FALSE(net.w1.grad().defined());
  CHECK_FALSE(net.w2.grad().defined());
  Net other;
  other.x += 1.0;
  net.backward(deferring);
  other.backward(plain);
  CHECK(net.gradients() == other.gradients());
}

TEST_CASE("the end of the tape computes what nobody asked for, and lets its operands go") {
  Net net, other;
  const auto before = pool_stats(Device::cpu()).in_use;
  {
    Tape tape;
    Tensor x = tensor({500, 3});
    tape.backward(sum(deferring(x, net.w1, net.b1)));
    CHECK(net.w1.leaf()->pending != nullptr);
  }
  CHECK(net.w1.leaf()->pending == nullptr);
  CHECK(net.w1.grad().defined());
  // The gradients themselves have stayed.
  CHECK(pool_stats(Device::cpu()).in_use <= before + 2 * 256);
  // An input may be overwritten after the tape's end.
  net.w1.clear_grad();
  net.b1.clear_grad();
  net.backward(deferring);
  net.tape = nullptr;
  net.x += 1.0;
  other.backward(plain);
  CHECK(net.gradients() == other.gradients());
}

TEST_CASE("a backward that fails leaves nothing pending") {
  Net net;
  Tape tape;
  Tensor h = deferring(net.x, net.w1, net.b1);
  Tensor broken = detached(h);
  record("broken", {h}, broken, [](Backward& b) {
    b.give(0, b.grad());
    throw Error("broken");
  });
  const Tensor loss = sum(deferring(broken, net.w2, net.b2));
  check_error([&] { tape.backward(loss); }, {"broken"});
  CHECK_FALSE(net.w2.grad().defined());
  CHECK(net.w2.leaf()->pending == nullptr);
}

// y = 3 x as a pass that says so: relu with all x > 0, times 3.
Tensor with_pass(const Tensor& x, std::vector<bool>& went_through) {
  Tensor y = relu(detached(x));
  Recording recording("with_pass", {x});
  if (recording) {
    const ops::ActivationArgs args{math::AnyActivation{math::ReLU{}}, {}, x.dtype()};
    auto pass = std::make_shared<const Pass>(Pass{args, Saved(y)});
    recording.finish(
        y,
        [pass, &went_through](Backward& b) {
          went_through.push_back(b.grad_is_through_pass());
          Tensor dx = b.grad();
          if (!b.grad_is_through_pass()) {
            dx = Tensor::empty(dx.shape(), dx.dtype());
            ops::activation_backward(b.saved(pass->kept), b.grad(), dx, pass->args);
          }
          b.give(0, dx);
        },
        pass);
  }
  return y;
}

// sum(x w^T), whose gradient of x goes through the pass below where it may.
Tensor through(const Tensor& x, const Tensor& w) {
  Tensor y = linear(detached(x), detached(w));
  record("through", {x}, y, [w = Saved(w)](Backward& b) {
    if (const Pass* below = b.pass_below(0)) {
      const Tensor& kept = b.saved(below->kept);
      Tensor dx = Tensor::empty(kept.shape(), kept.dtype());
      ops::linear_backward_input(b.grad(), b.saved(w), kept, dx, below->args);
      b.give_through_pass(0, dx);
    } else {
      b.give(0, matmul(b.grad(), b.saved(w)));
    }
  });
  return y;
}

TEST_CASE("a gradient goes through the pass below only if nobody else wants one there") {
  const Tensor w = tensor({2, 3}, 2, 7);
  std::vector<bool> went;
  const auto gradient = [&](auto of) {
    Tensor x = leaf({4, 3});
    went.clear();
    Tape tape;
    tape.backward(sum(of(x)));
    return x.grad().to_vector<double>();
  };
  const auto expected = gradient([&](const Tensor& x) { return linear(relu(x), w); });
  CHECK(gradient([&](const Tensor& x) { return through(with_pass(x, went), w); }) == expected);
  CHECK(went == std::vector{true});

  const auto twice = [&](auto pass, auto use) {
    return [&, pass, use](const Tensor& x) {
      const Tensor h = pass(x);
      return sum(use(h)) + sum(h * 2.0);
    };
  };
  const auto expected_twice = gradient(twice([](const Tensor& x) { return relu(x); },
                                             [&](const Tensor& h) { return linear(h, w); }));
  CHECK(gradient(twice([&](const Tensor& x) { return with_pass(x, went); },
                       [&](const Tensor& h) { return through(h, w); })) == expected_twice);
  CHECK(went == std::vector{false});
}

TEST_CASE("linear_cross_entropy is cross_entropy of linear, bit for bit on the CPU") {
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 2, 1, 2, -100}, {5});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    for (const double smoothing : {0.0, 0.1}) {
      const CrossEntropyOptions options{.reduction = reduction, .label_smoothing = smoothing};
      const auto run = [&](bool fused) {
        Tensor x = leaf({5, 4}), w = leaf({3, 4}, 2, 2), b = leaf({3}, 2, 3);
        Tape tape;
        const Tensor h = tanh(x);
        const Tensor loss = fused ? linear_cross_entropy(h, w, b, labels, options)
                                  : cross_entropy(linear(h, w, b), labels, options);
        tape.backward(loss, tensor(loss.shape(), 2, 9));
        return std::vector{loss.to_vector<double>(), x.grad().to_vector<double>(),
                           w.grad().to_vector<double>(), b.grad().to_vector<double>()};
      };
      CHECK(run(true) == run(false));
    }
  }
  const Tensor x = tensor({5, 4}), w = tensor({3, 4});
  CHECK(linear_cross_entropy(x, w, {}, labels).item() ==
        cross_entropy(linear(x, w), labels).item());
  check_error(
      [&] {
        linear_cross_entropy(x, w, {}, Tensor::from({0, 1, 2, 3, 0}, {5}));
      },
      {"cross_entropy", "label 3", "row 3", "[0, 3)"});
  check_error([&] { linear_cross_entropy(tensor({5, 7}), w, {}, labels); }, {"linear", "[..., 4]"});
  check_error([&] { linear_cross_entropy(tensor({2, 5, 4}), w, {}, labels); }, {"[2, 5, 4]"});
}

}  // namespace
}  // namespace sinter
