// The activation layers and Dropout as a user writes them.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

const std::vector<double> wrong_probabilities{-0.1, 1.0001, 2.0, std::nan(""),
                                              std::numeric_limits<double>::infinity()};

// Each of the list: its name, its dropout, its errors, and its values in eval mode.
template <class Layer, class Function>
void check_layer(const char* name, const Layer& plain, const Layer& with_dropout,
                 Function function) {
  CAPTURE(name);
  const Tensor x = tensor({50, 40}, 8.0, 1, DType::float32);
  CHECK(same(plain(x), function(x)));
  check_error([&] { with_dropout(x); }, {"drop_p", "Sequential"});
  Sequential model{with_dropout};
  CHECK(model.text() == std::string(name) + "(drop_p=0.25)");
  CHECK(Sequential{plain}.text() == name);
  model.set_generator(std::make_shared<Generator>(5));
  const Numbers values = doubles(model(x));
  const Numbers expected = doubles(function(x));
  const math::DropoutMask mask = math::dropout_mask(0.25, 5, 0, 0);
  const double scale = 65536.0 / (65536 - 16384);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = mask.keep(i) ? expected[i] * scale : 0;
    wrong += std::abs(values[i] - wanted) <= 1e-6 * std::abs(wanted) ? 0 : 1;
  }
  CHECK(wrong == 0);
  model.eval();
  CHECK(same(model(x), function(x)));
  for (const double p : wrong_probabilities) {
    Layer broken = plain;
    broken.drop_p = p;
    check_error([&] { Sequential{broken}; }, {name, "drop_p", "[0, 1]"});
    check_error([&] { Sequential().add(broken); }, {name, "drop_p", "[0, 1]"});
  }
}

TEST_CASE("every activation of the list is a layer with dropout") {
  int checked = 0;
#define SINTER_TEST_LAYER(Type, function)                         \
  check_layer<Type>(#function, {}, {.act = {}, .drop_p = 0.25},   \
                    [](const Tensor& x) { return function(x); }); \
  ++checked;
  SINTER_ACTIVATIONS(SINTER_TEST_LAYER)
#undef SINTER_TEST_LAYER
  CHECK(checked >= 21);
  CHECK(checked == math::activation_count);
}

// y of a layer for one x, in float64.
template <class Layer>
double at(double x, const Layer& layer) {
  Sequential model{layer};
  return model(Tensor::from({x}, {1})).item();
}

TEST_CASE("parameters are fields with names") {
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-14); };
  CHECK(at(-3, LeakyReLU{.act = {.negative_slope = 0.1}}) == near(-0.3));
  CHECK(at(-3, LeakyReLU{.act = {.negative_slope = 0.1}, .drop_p = 0}) == near(-0.3));
  CHECK(at(-1, ELU{.act = {.alpha = 2}}) == near(2 * std::expm1(-1)));
  CHECK(at(-1, CELU{.act = {.alpha = 2}}) == near(2 * std::expm1(-0.5)));
  CHECK(at(3, Hardtanh{.act = {.min_val = -2, .max_val = 2.5}}) == 2.5);
  CHECK(at(-3, Hardtanh{.act = {.min_val = -2, .max_val = 2.5}}) == -2);
  CHECK(at(1, Softplus{.act = {.beta = 2}}) == near(std::log1p(std::exp(2.0)) / 2));
  CHECK(at(1, Softplus{.act = {.beta = 2, .threshold = 1.5}}) == 1);
  CHECK(at(1.5, Hardshrink{.act = {.lambd = 2}}) == 0);
  CHECK(at(2.5, Hardshrink{.act = {.lambd = 2}}) == 2.5);
  CHECK(at(2.5, Softshrink{.act = {.lambd = 2}}) == 0.5);
}

TEST_CASE("parameters out of range are errors where the layer is built") {
  check_error([] { Sequential{ELU{.act = {.alpha = -1}}}; }, {"elu", "alpha >= 0"});
  check_error([] { Sequential{CELU{.act = {.alpha = 0}}}; }, {"celu", "alpha > 0"});
  check_error([] { Sequential{LeakyReLU{.act = {.negative_slope = std::nan("")}}}; },
              {"leaky_relu", "negative_slope >= 0"});
  check_error([] { Sequential{Hardtanh{.act = {.min_val = 1, .max_val = 1}}}; },
              {"hardtanh", "min_val < max_val"});
  check_error([] { Sequential{Softplus{.act = {.beta = 0}}}; }, {"softplus", "beta > 0"});
  check_error([] { Sequential{Hardshrink{.act = {.lambd = -1}}}; }, {"hardshrink", "lambd >= 0"});
}

TEST_CASE("Dropout checks its probability where it is built") {
  for (const double p : wrong_probabilities) {
    check_error([&] { Sequential{Dropout{.p = p}}; }, {"dropout", "[0, 1]"});
  }
  CHECK(Sequential{Dropout{}}.text() == "dropout(p=0.5)");
  CHECK(Sequential{Dropout{.p = 0}}.text() == "dropout(p=0)");
}

TEST_CASE("Flatten") {
  const Tensor x = Tensor::zeros({4, 1, 5, 6});
  CHECK(Flatten{}(x).shape() == Shape{4, 30});
  CHECK(Flatten{0}(x).shape() == Shape{120});
  CHECK(Flatten{2}(x).shape() == Shape{4, 1, 30});
  CHECK(Flatten{-2}(x).shape() == Shape{4, 1, 30});
  CHECK(Flatten{}(Tensor::zeros({4, 3})).shape() == Shape{4, 3});
  CHECK(Flatten{}(x).address() == x.address());
  check_error([] { Flatten{}(Tensor::zeros({784})); }, {"flatten", "start_dim 1", "[784]"});
  Sequential model{Flatten{7}};
  check_error([&] { model(x); }, {"layer 0", "flatten", "start_dim 7", "[4, 1, 5, 6]"});
}

}  // namespace
}  // namespace sinter
