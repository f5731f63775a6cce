// Functions over rows: their values by definition, their ends, and what they refuse. Gradients are
// test_gradients.cpp's subject, PyTorch's values golden_check's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter {
namespace {

using namespace testing;

TEST_CASE("softmax keeps its digits at the ends") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from({1e300, -1e300, 0.0, 800.0, 0.0, -1.0, 1000.0, 960.0, 0.0}, {3, 3});
  CHECK(largest_error(doubles(softmax(x)), {1, 0, 0, 1, 0, 0, 1, std::exp(-40), 0}) < 1e-17);
  CHECK(largest_error(doubles(softmin(Tensor::from({0.0, 1e300}, {1, 2}))), {1, 0}) == 0);
  const auto logs = doubles(log_softmax(Tensor::from({40.0, 0.0}, {1, 2})));
  CHECK(logs[0] == doctest::Approx(-std::exp(-40)).epsilon(1e-14));
  CHECK(logs[1] == doctest::Approx(-40 - std::exp(-40)).epsilon(1e-15));
  CHECK(doubles(softmax(Tensor::from({-inf, 0.0}, {1, 2}))) == std::vector<double>{0, 1});
  for (const double y : doubles(softmax(Tensor::from({std::nan(""), 0.0}, {1, 2})))) {
    CHECK(std::isnan(y));
  }
}

TEST_CASE("nothing in, nothing out") {
  CHECK(softmax(Tensor::zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(layer_norm(Tensor::zeros({0, 3}), {3}).shape() == Shape{0, 3});
  CHECK(glu(Tensor::zeros({0, 4})).shape() == Shape{0, 2});
  Tensor weight = Tensor::full({3}, 1, DType::float64);
  weight.set_requires_grad();
  Tape tape;
  tape.backward(sum(layer_norm(Tensor::zeros({0, 3}, DType::float64), {3}, weight)));
  CHECK(doubles(weight.grad()) == std::vector<double>{0, 0, 0});
}

TEST_CASE("a norm's rows have the moments that it gives them, however far from 0 they were") {
  const std::int64_t n = 50;
  Tensor x = tensor({4, n}, 3.0, 1, DType::float32) + 1000.0;
  const auto y = doubles(layer_norm(x, {n}));
  for (std::int64_t row = 0; row < 4; ++row) {
    double sum = 0, squares = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double value = y[static_cast<std::size_t>(row * n + j)];
      sum += value;
      squares += value * value;
    }
    CHECK(sum / n == doctest::Approx(0).epsilon(1e-4));
    CHECK(squares / n == doctest::Approx(1).epsilon(1e-4));
  }
  // A row without spread is its bias.
  CHECK(doubles(layer_norm(Tensor::full({1, 4}, 7), {4})) == std::vector<double>{0, 0, 0, 0});
  CHECK(largest_error(doubles(rms_norm(Tensor::full({1, 4}, 7, DType::float64), {4})),
                      {1, 1, 1, 1}) < 1e-15);
}

TEST_CASE("rms_norm's own eps is float32's for 16-bit types, as in PyTorch") {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    CHECK(largest_error(doubles(rms_norm(Tensor::full({1, 4}, 0.0625, dtype), {4})), {1, 1, 1, 1}) <
          1e-4);
  }
}

TEST_CASE("what glu drops is 0, whatever the gate is, and so is its gradient") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double p : {0.5, 1.0}) {
    Tensor x = Tensor::full({1, 64}, inf, DType::float64);
    x.set_requires_grad();
    Tape tape;
    const Tensor y = glu(x, math::SiLU{}, {.p = p, .generator = std::make_shared<Generator>(9)});
    tape.backward(sum(y));
    const auto values = doubles(y), slopes = doubles(x.grad());
    int dropped = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      if (values[i] == 0) {
        ++dropped;
        CHECK(slopes[i] == 0);
        CHECK(slopes[32 + i] == 0);
      }
    }
    CHECK(dropped > 5);
    CHECK((p < 1 || dropped == 32));
  }
}

TEST_CASE("what glu drops is what a dropout behind it drops") {
  const Tensor x = tensor({6, 34});
  const auto dropped = [&](auto f) { return doubles(f(std::make_shared<Generator>(9))); };
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    CHECK(dropped([&](auto generator) {
            return glu(x, math::GELU{}, {0.3, generator, scheme});
          }) == dropped([&](auto generator) {
            return dropout(glu(x, math::GELU{}), {0.3, generator, scheme});
          }));
  }
}

TEST_CASE("a norm with what stands behind it gives what its parts give one by one") {
  const auto run = [](auto f) {
    std::vector<Tensor> leaves{tensor({6, 34}), tensor({34}, 2.0, 5), tensor({34}, 2.0, 6)};
    for (Tensor& leaf : leaves) {
      leaf.set_requires_grad();
    }
    Tape tape;
    const Tensor y = f(leaves[0], leaves[1], leaves[2], std::make_shared<Generator>(9));
    tape.backward(sum(y * tensor({6, 34}, 2.0, 7)));
    std::vector<double> out = doubles(y);
    for (const Tensor& leaf : leaves) {
      const auto grad = leaf.grad().defined() ? doubles(leaf.grad()) : std::vector<double>{};
      out.insert(out.end(), grad.begin(), grad.end());
    }
    return out;
  };
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    math::for_each_activation([&]<class A>() {
      CAPTURE(std::string(A::name));
      CHECK(largest_error(
                run([&](const Tensor& x, const Tensor& w, const Tensor& b, auto generator) {
                  return layer_norm(x, {34}, w, b, 1e-5, {A{}, {0.3, generator, scheme}});
                }),
                run([&](const Tensor& x, const Tensor& w, const Tensor& b, auto generator) {
                  return activation(layer_norm(x, {34}, w, b), A{}, {0.3, generator, scheme});
                })) < 1e-12);
      CHECK(largest_error(run([&](const Tensor& x, const Tensor& w, const Tensor&, auto) {
                            return rms_norm(x, {34}, w, 1e-5, {A{}});
                          }),
                          run([&](const Tensor& x, const Tensor& w, const Tensor&, auto) {
                            return activation(rms_norm(x, {34}, w, 1e-5), A{});
                          })) < 1e-12);
    });
    CHECK(largest_error(run([&](const Tensor& x, const Tensor& w, const Tensor&, auto generator) {
                          return rms_norm(x, {34}, w, 1e-5, {.dropout = {0.3, generator, scheme}});
                        }),
                        run([&](const Tensor& x, const Tensor& w, const Tensor&, auto generator) {
                          return dropout(rms_norm(x, {34}, w, 1e-5), {0.3, generator, scheme});
                        })) < 1e-12);
  }
}

TEST_CASE("softmax with dropout gives what softmax, then dropout give") {
  for (const Shape& shape : {Shape{6, 34}, Shape{40}, Shape{2, 3, 7}, Shape{50, 1}, Shape{0, 3}}) {
    const auto run = [&shape](auto f) {
      Tensor x = tensor(shape, 8.0);
      x.set_requires_grad();
      const auto generator = std::make_shared<Generator>(9);
      generator->take_call();  // a mask that is not the first
      Tape tape;
      const Tensor y = f(x, generator);
      const std::size_t recorded = tape.size();
      tape.backward(sum(y * tensor(shape, 2.0, 7)));
      std::vector<double> out = doubles(y), grad = doubles(x.grad());
      out.insert(out.end(), grad.begin(), grad.end());
      return std::pair{out, recorded};
    };
    for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
      for (const double p : {0.0, 0.3, 1.0}) {
        INFO(shape, ", p ", p);
        const auto fused = run([&](const Tensor& x, auto generator) {
          return softmax(x, -1, {p, generator, scheme});
        });
        const auto apart = run([&](const Tensor& x, auto generator) {
          return dropout(softmax(x), {p, generator, scheme});
        });
        CHECK(fused.first == apart.first);  // bit for bit: on the CPU the parts round the same
        CHECK(fused.second + (p > 0 ? 1 : 0) == apart.second);
      }
    }
  }
}

TEST_CASE("what is dropped behind a softmax is 0, even in a row that is no number") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Tensor x = Tensor::full({1, 64}, bad, DType::float64);
    x.set_requires_grad();
    Tape tape;
    const Tensor y = softmax(x, -1, {.p = 0.5, .generator = std::make_shared<Generator>(9)});
    const auto values = doubles(y);
    const auto dropped = std::ranges::count(values, 0.0);
    CHECK(dropped > 10);
    CHECK(dropped < 54);
    CHECK(std::ranges::count_if(values, [](double v) { return std::isnan(v); }) == 64 - dropped);
    tape.backward(sum(y));
    for (const double g : doubles(x.grad())) {  // the sum over the row has NaN in it
      CHECK(std::isnan(g));
    }
  }
}

TEST_CASE(
    "what was changed since cannot be gone back through, where a softmax with dropout kept it") {
  Tensor leaf = tensor({3, 4});
  leaf.set_requires_grad();
  Tape tape;
  Tensor x = leaf * 2.0;
  const Tensor y = softmax(x, -1, {.p = 0.5, .generator = std::make_shared<Generator>(9)});
  x += 1.0;
  check_error([&] { tape.backward(sum(y)); }, {"softmax"});
}

TEST_CASE("what is dropped behind a norm is 0, even in a row that is no number") {
  const double nan = std::nan("");
  Tensor x = Tensor::full({1, 64}, nan, DType::float64);
  for (const double p : {0.5, 1.0}) {
    const auto y = doubles(rms_norm(
        x, {64}, {}, 1e-5, {math::GELU{}, {.p = p, .generator = std::make_shared<Generator>(9)}}));
    const auto dropped = std::ranges::count(y, 0.0);
    CHECK(dropped > 10);
    CHECK((p < 1 ? dropped < 54 : dropped == 64));
  }
}

TEST_CASE("16-bit norms go back through an activation as float64 ones do") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const auto run = [&](DType of) {
      Tensor x = tensor({4, 40}, 2.0, 1, dtype).to(of);
      x.set_requires_grad();
      Tape tape;
      const Tensor weighting = tensor({4, 40}, 2.0, 2, dtype).to(of);
      const Tensor y =
          layer_norm(x, {40}, {}, {}, 1e-5, {math::Tanh{}, {0.3, std::make_shared<Generator>(9)}});
      tape.backward(sum(y * weighting));
      std::vector<double> out = doubles(y), grad = doubles(x.grad());
      out.insert(out.end(), grad.begin(), grad.end());
      return out;
    };
    CHECK(largest_error(run(dtype), run(DType::float64)) <
          (dtype == DType::float16 ? 0.004 : 0.032));
  }
}

TEST_CASE("functions over rows refuse what they cannot do") {
  const Tensor x = tensor({3, 4});
  check_error([&] { softmax(x, 0); }, {"softmax", "last dimension", "0", "[3, 4]"});
  check_error([&] { log_softmax(Tensor::zeros({})); }, {"log_softmax", "scalar"});
  check_error([&] { softmin(Tensor{}); }, {"softmin", "undefined"});
  check_error([&] { softmax(Tensor::zeros({2}, DType::int64)); }, {"softmax", "int64"});
  CHECK(softmax(x, 1).shape() == x.shape());
  for (const double bad : {-0.1, 1.5, std::nan("")}) {
    check_error([&] { softmax(x, -1, {.p = bad}); }, {"softmax", "probability", "[0, 1]"});
  }
  check_error([&] { softmax(x, -1, {.p = 0.5}); }, {"softmax", "generator"});
  check_error([&] { layer_norm(x, {3}); }, {"layer_norm", "[3]", "[3, 4]"});
  check_error([&] { layer_norm(x, {5, 3, 4}); }, {"layer_norm", "[5, 3, 4]", "[3, 4]"});
  check_error([&] { layer_norm(x, {}); }, {"layer_norm", "normalized_shape"});
  check_error([&] { layer_norm(x, {0}); }, {"layer_norm", "normalized_shape", "[0]"});
  check_error([&] { layer_norm(x, {4}, tensor({3})); }, {"weight", "[4]", "[3]"});
  check_error([&] { layer_norm(x, {4}, {}, Tensor::zeros({4})); }, {"bias", "float64", "float32"});
  for (const double bad : {-1e-9, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check_error([&] { rms_norm(x, {4}, {}, bad); }, {"rms_norm", "eps"});
  }
  check_error([&] { layer_norm(x, {4}, {}, {}, 1e-5, {math::LeakyReLU{-1}}); },
              {"layer_norm", "leaky_relu"});
  check_error([&] { rms_norm(x, {4}, {}, 1e-5, {.dropout = {.p = 2}}); }, {"rms_norm", "[0, 1]"});
  check_error([&] { rms_norm(x, {4}, {}, 1e-5, {.dropout = {.p = 0.5}}); },
              {"rms_norm", "generator"});
  check_error([&] { glu(tensor({3, 5})); }, {"glu", "two halves", "[3, 5]"});
  check_error([&] { glu(Tensor::zeros({})); }, {"glu", "[]"});
  check_error([&] { glu(x, math::LeakyReLU{-1}); }, {"glu", "leaky_relu"});
  check_error([&] { glu(x, math::SiLU{}, {.p = 2}); }, {"glu", "[0, 1]"});
}

}  // namespace
}  // namespace sinter
