// A DetectAnomaly scope names the layer, by its text and its place in the model.
#include <cmath>
#include <limits>
#include <optional>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../runtime/sentence.h"
#include <sinter/autograd/anomaly.h>
#include <sinter/autograd/function.h>
#include <sinter/layers/attention.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/convolution.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/norms.h>
#include <sinter/layers/pooling.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/softmax.h>

namespace sinter {
namespace {

using namespace testing;

Tensor batch(std::int64_t rows = 6, std::int64_t features = 4) {
  return tensor({rows, features}, 1.0, 3, DType::float32);
}

// One element of a parameter becomes the value.
void plant(Module& model, std::size_t parameter, double value) {
  const Parameters all = model.parameters();
  Tensor weight = all[parameter].value().detach();
  std::vector<double> values = doubles(weight);
  values[1] = value;
  weight.copy_from(Tensor::from(values, weight.shape()).to(weight.dtype()));
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Its forward is sound, its backward divides by 0 in one element.
struct BadBackward : Module {
  Tensor forward(const Tensor& x) override {
    Tensor y = detached(x) * 1.0;
    record("bad", {x}, y, [](Backward& b) {
      Tensor dx = b.grad().clone();
      dx.data<float>()[5] /= 0.0F;
      b.give(0, dx);
    });
    return y;
  }
  std::string text() const override { return "bad()"; }
};

struct Block : Module {
  Linear in{4, 5}, out{5, 3};
  void members(Members& m) override {
    m.child("in", in);
    m.child("out", out);
  }
  Tensor forward(const Tensor& x) override { return out(relu(in(x))); }
};

TEST_CASE("forward: the layer with a bad weight, also where it would run as one op with others") {
  Sequential model{Linear{4, 5}, ReLU{.drop_p = 0.25}, Linear{5, 3}, Sigmoid{}};
  plant(model, 2, nan);  // the weight of the second Linear, which torch calls "3"
  const DetectAnomaly anomaly;
  check_refused([&] { model(batch()); }, {"in forward of linear(5, 3) \"3\"",
                                          "op linear_forward gave 6 NaN in float32 "
                                          "[6, 3], the first at [0, 0]",
                                          "from its input 1, which had 1 NaN in float32 "
                                          "[3, 5], the first at [0, 1]"});
}

TEST_CASE("the last Linear, which is one op with the loss") {
  Sequential model{Linear{4, 5}, ReLU{}, Linear{5, 3}};
  plant(model, 2, nan);
  const Tensor labels = Tensor::zeros({6}, DType::int64);
  const DetectAnomaly anomaly;
  check_refused([&] { model.cross_entropy(batch(), labels); },
                {"in forward of linear(5, 3) \"2\"", "op linear_cross_entropy", "its input 1"});
}

TEST_CASE("layers inside of layers, and modules of one's own") {
  Sequential nested{Linear{4, 4}};
  nested.add(Block{});
  nested.add(Sequential{Linear{3, 3}, Linear{3, 2}});
  plant(nested, 4, nan);  // of the block: "1.out.weight"
  const DetectAnomaly anomaly;
  check_refused([&] { nested(batch()); }, {"in forward of linear(5, 3) \"1.out\""});
}

TEST_CASE("a bad input is told from a bad layer") {
  Sequential model{Linear{4, 3}, ReLU{}};
  Tensor x = batch();
  x.data<float>()[2] = HUGE_VALF;
  x.bump_version();
  const DetectAnomaly anomaly;
  check_refused([&] { model(x); }, {"linear(4, 3) \"0\"",
                                    "from its input 0, which had 1 infinity in float32 [6, 4], "
                                    "the first at [0, 2]"});
}

TEST_CASE("backward: the layer whose function gave it, though backward runs outside of layers") {
  Sequential model{Linear{4, 3}, BadBackward{}, Linear{3, 2}};
  const DetectAnomaly anomaly;
  Tape tape;
  const Tensor loss = mean(model(batch()));
  check_refused([&] { tape.backward(loss); },
                {"in backward of bad, recorded by bad() \"1\"", "1 infinity in float32 [6, 3]",
                 "the first at [1, 2]"});
  for (const NamedParameter& parameter : model.parameters()) {
    CHECK_FALSE(has_gradient(parameter));
  }
}

TEST_CASE("a loss is outside of layers") {
  Sequential model{Linear{4, 3}};
  const DetectAnomaly anomaly;
  check_refused(
      [&] {
        model(batch()) / Tensor::zeros({6, 3});
      },
      {"outside of layers and backward", "op divide gave 18 infinities"});
}

TEST_CASE("a module that is called by itself, and one that no member names") {
  struct Hidden : Module {
    Linear inside{4, 3};  // which members() leaves out
    Tensor forward(const Tensor& x) override { return inside(x); }
  };
  Hidden hidden;
  plant(hidden.inside, 0, nan);
  const DetectAnomaly anomaly;
  check_refused([&] { hidden.inside(batch()); }, {"in forward of the model, op linear_forward"});
  check_refused([&] { hidden(batch()); }, {"in forward of linear(4, 3), op linear_forward"});
}

TEST_CASE("sound models of every kind pass, forward and backward, with the bits that they have") {
  const auto run = [](const Sequential& model, const Tensor& x, bool watched) {
    std::optional<DetectAnomaly> anomaly;
    if (watched) {
      anomaly.emplace();
    }
    Sequential copy = model;
    Tape tape;
    const Tensor y = copy(x);
    const Tensor loss = mean(y * y);
    tape.backward(loss);
    std::vector<double> all = doubles(loss);
    for (const NamedParameter& parameter : copy.parameters()) {
      const std::vector<double> gradient = doubles(parameter.grad());
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
    return all;
  };
  const auto check_sound = [&](const Sequential& model, const Tensor& x) {
    CAPTURE(model.text());
    const bool equal = run(model, x, true) == run(model, x, false);
    CHECK(equal);
  };
  check_sound(Sequential{Linear{4, 8}, GELU{.drop_p = 0.25}, Linear{8, 6}, ReLU{},
                         Dropout{.p = 0.5}, LayerNorm{6}, Linear{6, 3}, Softmax{}},
              batch());
  check_sound(Sequential{Linear{4, 8}, BatchNorm1d{8}, SiLU{}, GLU{}, RMSNorm{4}}, batch());
  check_sound(
      Sequential{Conv2d{2, 3, 3}, BatchNorm2d{3}, ReLU{}, MaxPool2d{2}, Flatten{}, Linear{12, 3}},
      tensor({3, 2, 6, 6}, 1.0, 3, DType::float32));
  check_sound(Sequential{MultiheadAttention{4, 2}}, tensor({2, 5, 4}, 1.0, 3, DType::float32));
}

}  // namespace
}  // namespace sinter
