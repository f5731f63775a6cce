// One element's updates against closed forms, and against PyTorch's float64 on recorded gradients.

#include <cmath>
#include <initializer_list>

#include <doctest/doctest.h>

#include <sinter/kernels/math/optimizers.h>

namespace sinter::math {
namespace {

AdamConstants<double> adam_at(const AdamOptions& o, int t) {
  return adam_constants<double>(o, 1 - std::pow(o.beta1, t), 1 - std::pow(o.beta2, t));
}

TEST_CASE("SGD without momentum under decay alone is geometric") {
  const auto c = sgd_constants<double>({.lr = 0.1, .weight_decay = 0.5}, false);
  double p = 3;
  for (int t = 1; t <= 20; ++t) {
    sgd_step(p, 0.0, c);
    CHECK(p == doctest::Approx(3 * std::pow(0.95, t)).epsilon(1e-14));
  }
}

TEST_CASE("SGD with momentum under a constant gradient") {
  const double m = 0.9, g = 2, lr = 0.1;
  double p = 1, velocity = 0, travelled = 0;
  for (int t = 1; t <= 20; ++t) {
    sgd_step(p, g, velocity, sgd_constants<double>({.lr = lr, .momentum = m}, t == 1));
    const double v = g * (1 - std::pow(m, t)) / (1 - m);
    travelled += lr * v;
    CHECK(velocity == doctest::Approx(v).epsilon(1e-14));
    CHECK(p == doctest::Approx(1 - travelled).epsilon(1e-13));
  }
}

TEST_CASE("dampening spares the first step") {
  double p = 0, velocity = 0;
  const SgdOptions options{.lr = 1, .momentum = 0.5, .dampening = 0.25};
  sgd_step(p, 8.0, velocity, sgd_constants<double>(options, true));
  CHECK(velocity == 8);
  sgd_step(p, 8.0, velocity, sgd_constants<double>(options, false));
  CHECK(velocity == 0.5 * 8 + 0.75 * 8);
  CHECK(p == -18);
}

TEST_CASE("Nesterov looks one step ahead") {
  double p = 0, velocity = 0;
  sgd_step(p, 4.0, velocity,
           sgd_constants<double>({.lr = 0.5, .momentum = 0.5, .nesterov = true}, true));
  CHECK(p == -0.5 * (4 + 0.5 * 4));
}

TEST_CASE("Adam under a constant gradient moves by lr * g / (|g| + eps)") {
  for (const double g : {1e-3, -5.0}) {
    const AdamOptions options{.lr = 0.01, .eps = 1e-4};
    double p = 1, mean = 0, square = 0;
    for (int t = 1; t <= 50; ++t) {
      adam_step(p, g, mean, square, adam_at(options, t));
      CHECK(p == doctest::Approx(1 - t * 0.01 * g / (std::abs(g) + 1e-4)).epsilon(1e-11));
    }
  }
}

TEST_CASE_TEMPLATE("under gradients of 0 a moving average ends at 0, not at a subnormal", V, float,
                   double) {
  V parameter = 1, velocity = 1, other = 1, mean = 1, square = 0;
  const auto sgd = sgd_constants<double>({.lr = 0.1, .momentum = 0.9}, false);
  for (int t = 1; t <= 10000; ++t) {
    sgd_step(parameter, V(0), velocity, sgd);
    adam_step(other, V(0), mean, square, adam_at({}, t));
  }
  CHECK(velocity == 0);
  CHECK(mean == 0);
}

TEST_CASE("decoupled decay alone is geometric, L2 decay is not") {
  double p = 2, mean = 0, square = 0;
  const AdamOptions options{.lr = 0.1, .weight_decay = 0.5, .decoupled = true};
  for (int t = 1; t <= 20; ++t) {
    adam_step(p, 0.0, mean, square, adam_at(options, t));
    CHECK(p == doctest::Approx(2 * std::pow(0.95, t)).epsilon(1e-14));
  }
  p = 2, mean = 0, square = 0;
  adam_step(p, 0.0, mean, square, adam_at({.lr = 0.1, .weight_decay = 0.5}, 1));
  CHECK(p == doctest::Approx(1.9).epsilon(1e-8));  // normalised: the first step is lr itself
}

TEST_CASE("SGD as PyTorch computes it") {
  {
    const double gradients[] = {-0.779315639592394, -0.7084258873884588, 0.283953003045055,
                                0.3255430608512147};
    const double after[] = {1.4429197043324005, 1.6368528174541674, 1.6918718262009722,
                            1.7033501338513477};
    const SgdOptions options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
    double p = 1.2973146306080008, velocity = 0;
    for (int t = 0; t < 4; ++t) {
      sgd_step(p, gradients[t], velocity, sgd_constants<double>(options, t == 0));
      CHECK(p == doctest::Approx(after[t]).epsilon(1e-14));
    }
  }
  {
    const double gradients[] = {-1.4505545954516197, -0.37152143133996257, 0.11646978894665552,
                                -0.054532489074486094};
    const double after[] = {0.6345575757008375, 0.7948292037986803, 0.9297560859710063,
                            1.0555528790520587};
    const SgdOptions options{.lr = 0.1, .momentum = 0.9, .dampening = 0.2};
    double p = 0.4895021161556755, velocity = 0;
    for (int t = 0; t < 4; ++t) {
      sgd_step(p, gradients[t], velocity, sgd_constants<double>(options, t == 0));
      CHECK(p == doctest::Approx(after[t]).epsilon(1e-14));
    }
  }
}

TEST_CASE("Adam and AdamW as PyTorch computes them") {
  {
    const double gradients[] = {0.8107880879735052, -0.9809101963746155, -1.5161633626457598,
                                -1.3410479419389714};
    const double after[] = {-0.9367358303477621, -0.9337105911828641, -0.9268848020169498,
                            -0.9187839699641861};
    const AdamOptions options{
        .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
    double p = -0.9267358442730985, mean = 0, square = 0;
    for (int t = 0; t < 4; ++t) {
      adam_step(p, gradients[t], mean, square, adam_at(options, t + 1));
      CHECK(p == doctest::Approx(after[t]).epsilon(1e-13));
    }
  }
  {
    const double gradients[] = {-2.498827949563473, 0.07668823928740832, 2.0423279674181876,
                                -2.4983279537703194};
    const double after[] = {0.6393358431460311, 0.6451655535098874, 0.6443475356231745,
                            0.6471504123245994};
    const AdamOptions options{.lr = 0.01, .weight_decay = 0.1, .decoupled = true};
    double p = 0.6299658089950448, mean = 0, square = 0;
    for (int t = 0; t < 4; ++t) {
      adam_step(p, gradients[t], mean, square, adam_at(options, t + 1));
      CHECK(p == doctest::Approx(after[t]).epsilon(1e-13));
    }
  }
}

TEST_CASE("constants held in float32 are rounded once, from float64") {
  const auto c = adam_constants<float>({}, 0.1, 0.001);
  CHECK(c.one_minus_beta2 == static_cast<float>(1 - 0.999));
  CHECK(c.keep == 1);
  float p = 1, mean = 0, square = 0;
  adam_step(p, 0.5f, mean, square, c);
  CHECK(p == doctest::Approx(0.999).epsilon(1e-7));
}

}  // namespace
}  // namespace sinter::math
