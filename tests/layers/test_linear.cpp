// Linear: what it starts from, what it computes, and what it says to inputs that do not fit.
#include <cmath>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

Numbers values_of(Module& module) {
  Numbers out;
  for (const NamedParameter& parameter : module.parameters()) {
    const Numbers part = doubles(parameter.value());
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// From a Python program with a Philox4x32-10 of its own, checked against the known answers that
// Random123 publishes: -b + 2 b u for b = 1 / sqrt(in), rounded to float32.
const Numbers seed_7{0.33130261301994324, 0.5456693768501282, 0.41331592202186584,
                     0.5742061138153076,  0.5032010674476624, -0.2756708264350891,
                     -0.4976222813129425, 0.19630825519561768};
const Numbers seed_7_second_layer{-0.6844210624694824,  0.39892029762268066, -0.48555102944374084,
                                  -0.40044325590133667, 0.0703745186328888,  -0.056570813059806824};
const Numbers seed_7_second_model{-0.0786217525601387, -0.5456108450889587, 0.43196651339530945,
                                  0.0889989584684372,  0.13404621183872223, 0.14738304913043976};

Numbers joined(Numbers a, const Numbers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_CASE("initial values are fixed for good") {
  manual_seed(7);
  Linear first{3, 2};
  Linear second{3, 2, {.bias = false}};
  CHECK(values_of(first) == seed_7);
  CHECK(values_of(second) == seed_7_second_model);
  manual_seed(7);
  Sequential model{Linear{3, 2}, Tanh{}, Linear{2, 2}};
  CHECK(values_of(model) == joined(seed_7, seed_7_second_layer));
}

TEST_CASE("initial values depend on the place in the model alone") {
  const Numbers expected = joined(seed_7, seed_7_second_layer);
  {
    manual_seed(7);
    const Linear last{2, 2};  // constructed first, copied twice
    const Linear copy = last;
    const Linear first{3, 2};
    Sequential model(first, Tanh{}, copy);
    CHECK(values_of(model) == expected);
  }
  {
    manual_seed(7);
    Sequential model;
    Linear last{2, 2};
    model.add(Linear{3, 2}).add(Tanh{});
    model.add(std::move(last));
    CHECK(values_of(model) == expected);
  }
  {
    manual_seed(7);
    Sequential inner{Linear{3, 2}};
    Sequential model;
    model.add(inner).add(Flatten{}).add(Sequential{Linear{2, 2}});
    CHECK(values_of(model) == expected);
  }
  {
    manual_seed(7);
    Sequential model{Linear{3, 2}, Tanh{}, Linear{2, 2}};
    model(Tensor::zeros({1, 3}));  // drawn by the first call
    CHECK(values_of(model) == expected);
  }
  {
    manual_seed(7);
    Sequential model{Linear{3, 2}, Tanh{}, Linear{2, 2}};
    Sequential moved = std::move(model);
    Sequential copied = moved;  // of a model that is not drawn yet
    CHECK(values_of(copied) == expected);
  }
  {
    Sequential model{Linear{3, 2}, Tanh{}, Linear{2, 2}};
    model.set_generator(std::make_shared<Generator>(7));
    CHECK(values_of(model) == expected);
  }
}

TEST_CASE("the float32 model is the rounded float64 model") {
  manual_seed(3);
  Sequential narrow{Linear{17, 5}, Linear{5, 3}};
  const Numbers values = values_of(narrow);
  manual_seed(3);
  Sequential wide{Linear{17, 5}, Linear{5, 3}};
  wide.to(DType::float64);
  const Numbers wide_values = values_of(wide);
  REQUIRE(values.size() == wide_values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(static_cast<float>(wide_values[i]) == static_cast<float>(values[i]));
  }
  narrow.to(DType::float16);
  for (const NamedParameter& parameter : narrow.parameters()) {
    CHECK(parameter.value().dtype() == DType::float16);
  }
  CHECK(largest_error(values_of(narrow), values) < 0x1p-11);
}

TEST_CASE("initial values fill their range evenly") {
  for (const std::int64_t in : {1, 100, 784}) {
    Linear linear{in, 300};
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    for (const NamedParameter& parameter : linear.parameters()) {
      const Numbers values = doubles(parameter.value());
      double sum = 0, squares = 0, largest = 0;
      for (const double value : values) {
        sum += value / bound;
        squares += value / bound * value / bound;
        largest = std::max(largest, std::abs(value) / bound);
      }
      const auto n = static_cast<double>(values.size());
      CHECK(largest <= 1 + 1e-7);  // rounding may pass the bound
      CHECK(largest > 0.98);
      // A uniform number in [-1, 1) has variance 1/3, its square 4/45: five standard deviations.
      CHECK(std::abs(sum / n) < 5 * std::sqrt(1 / (3 * n)));
      CHECK(std::abs(squares / n - 1.0 / 3) < 5 * std::sqrt(4 / (45 * n)));
    }
  }
}

TEST_CASE("x w^T + b, for rows, single vectors and more dimensions") {
  Linear linear{3, 2};
  Tensor weight = linear.weight().value().detach();
  weight.copy_from(Tensor::from({1.0f, 2.0f, 3.0f, -1.0f, 0.5f, 0.0f}, {2, 3}));
  Tensor bias = linear.bias().value().detach();
  bias.copy_from(Tensor::from({10.0f, 20.0f}, {2}));
  const Tensor x = Tensor::from({1.0f, 1.0f, 1.0f, 2.0f, 4.0f, -1.0f}, {2, 3});
  CHECK(doubles(linear(x)) == Numbers{16, 19.5, 17, 20});
  CHECK(linear(x).shape() == Shape{2, 2});
  CHECK(doubles(linear(x.reshape({2, 1, 3}))) == Numbers{16, 19.5, 17, 20});
  CHECK(linear(x.reshape({2, 1, 3})).shape() == Shape{2, 1, 2});
  CHECK(linear(Tensor::from({1.0f, 1.0f, 1.0f}, {3})).shape() == Shape{2});
  CHECK(linear(Tensor::zeros({0, 3})).shape() == Shape{0, 2});
  CHECK(linear.in_features() == 3);
  CHECK(linear.out_features() == 2);
  CHECK(linear.text() == "linear(3, 2)");
}

TEST_CASE("without bias") {
  Linear linear{3, 2, {.bias = false}};
  CHECK_FALSE(linear.bias().present());
  CHECK_FALSE(linear.bias().value().defined());
  REQUIRE(linear.parameters().size() == 1);
  CHECK(linear.parameters()[0].name == "weight");
  CHECK(doubles(linear(Tensor::zeros({1, 3}))) == Numbers{0, 0});
  CHECK(linear.text() == "linear(3, 2, bias=false)");
  check_error([&] { linear.bias().set_trainable(false); }, {"absent"});
}

TEST_CASE("sizes below 1 are errors") {
  check_error([] { Linear(0, 5); }, {"linear(0, 5)", "at least 1"});
  check_error([] { Linear(5, 0); }, {"linear(5, 0)"});
  check_error([] { Linear(-784, 10); }, {"linear(-784, 10)"});
  check_error([] { Linear(70'000'000'000, 70'000'000'000); }, {"[70000000000, 70000000000]"});
}

TEST_CASE("an input that does not fit names the layer, its place, expected and given") {
  Sequential model{Flatten{}, Linear{784, 256}, ReLU{.drop_p = 0.1}, Linear{256, 10}};
  check_error(
      [&] {
        model(Tensor::zeros({64, 785}));
      },
      {"layer 1 of the model", "linear(784, 256)", "[..., 784]", "[64, 785]"});
  check_error([&] { model(Tensor::zeros({64, 783})); }, {"[64, 783]"});
  Sequential unflattened{Linear{784, 10}};
  check_error(
      [&] {
        unflattened(Tensor::zeros({64, 1, 28, 28}));
      },
      {"layer 0 of the model", "linear(784, 10)", "[64, 1, 28, 28]", "put a Flatten before it"});
  CHECK_FALSE(contains(error_of([&] { unflattened(Tensor::zeros({64, 1, 28, 27})); }), "Flatten"));
  // The place is the name that the parameters have, also in a nest.
  Sequential wrong{Linear{4, 3}, ReLU{.drop_p = 0.1}, Linear{4, 3}};
  check_error([&] { wrong(Tensor::zeros({2, 4})); }, {"layer 3 of the model", "[2, 3]"});
  Sequential outer;
  outer.add(Flatten{}).add(Sequential{Linear{4, 4}, Tanh{}, Linear{5, 3}});
  check_error(
      [&] {
        outer(Tensor::zeros({2, 4}));
      },
      {"layer 1 of the model", "layer 2 of the model", "linear(5, 3)"});
  check_error([&] { Linear(3, 2)(Tensor{}); }, {"linear(3, 2)", "[..., 3]"});
}

TEST_CASE("a model and a batch that differ in type or device are one sentence") {
  Sequential model{Linear{4, 3}, ReLU{}};
  check_error(
      [&] {
        model(Tensor::zeros({2, 4}, DType::float64));
      },
      {"layer 0", "linear(4, 3)", "float64", "float32", "to(dtype)"});
  check_error([&] { model(Tensor::zeros({2, 4}, DType::uint8)); }, {"uint8", "float32"});
  check_error(
      [&] {
        model(Tensor::zeros({2, 4}, DType::float32, Device::fake()));
      },
      {"linear(4, 3)", "fake", "cpu", "to(device)"});
  model.to(Device::fake());
  check_error([&] { model(Tensor::zeros({2, 4})); }, {"the input is on cpu and the layer on fake"});
}

}  // namespace
}  // namespace sinter
