// The gradient checker itself: it catches wrong derivatives of every kind, and is not fooled by
// kinks in either direction.
#include <cmath>
#include <memory>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/gradcheck.h>

namespace sinter {
namespace {

using namespace testing;
using Inputs = std::span<const Tensor>;
using Scalar = std::function<double(double)>;

// An element-wise function whose backward says what the test wants it to say.
Tensor elementwise(const Tensor& x, const Scalar& f,
                   const std::function<double(double x, std::size_t i)>& derivative) {
  std::vector<double> values = doubles(x);
  std::vector<double> slopes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    slopes.push_back(derivative(values[i], i));
    values[i] = f(values[i]);
  }
  Tensor y = Tensor::from(values, x.shape());
  record("planted", {x}, y,
         [slope = Tensor::from(slopes, x.shape())](Backward& b) { b.give(0, b.grad() * slope); });
  return y;
}

GradCheckReport check_elementwise(const std::vector<double>& at, const Scalar& f,
                                  const std::function<double(double x, std::size_t i)>& derivative,
                                  const GradCheckOptions& options = {}) {
  return check_gradient([&](Inputs x) { return elementwise(x[0], f, derivative); },
                        {Tensor::from(at, {static_cast<std::int64_t>(at.size())})}, options);
}

double cube(double x) { return x * x * x; }
double cube_slope(double x) { return 3 * x * x; }

TEST_CASE("right derivatives pass") {
  const std::vector<double> points = numbers(40, 3.0);
  const GradCheckReport report =
      check_elementwise(points, cube, [](double x, std::size_t) { return cube_slope(x); });
  CHECK(report);
  CHECK(report.passed);
  CHECK(report.checked == 40);
  CHECK(report.at_kinks == 0);
  CHECK(report.worst_error < 1e-6);
}

TEST_CASE("planted wrong derivatives are caught") {
  const std::vector<double> points = numbers(40, 3.0);
  struct Fault {
    const char* name;
    std::function<double(double x, std::size_t i)> derivative;
  };
  const Fault faults[] = {
      {"scaled by 1 + 1e-4", [](double x, std::size_t) { return cube_slope(x) * (1 + 1e-4); }},
      {"shifted by 1e-4", [](double x, std::size_t) { return cube_slope(x) + 1e-4; }},
      {"the wrong sign", [](double x, std::size_t) { return -cube_slope(x); }},
      {"a missing factor", [](double x, std::size_t) { return x * x; }},
      {"zero", [](double, std::size_t) { return 0.0; }},
      {"one element of forty",
       [](double x, std::size_t i) { return cube_slope(x) + (i == 17 ? 1e-3 : 0); }},
      {"the last element", [](double x, std::size_t i) { return i == 39 ? 0 : cube_slope(x); }},
      {"NaN", [](double x, std::size_t i) { return i == 3 ? std::nan("") : cube_slope(x); }},
      {"infinity", [](double x, std::size_t i) { return i == 3 ? HUGE_VAL : cube_slope(x); }}};
  for (const Fault& fault : faults) {
    CAPTURE(fault.name);
    const GradCheckReport report = check_elementwise(points, cube, fault.derivative);
    CHECK_FALSE(report);
    CHECK(report.worst_error > 1e-6);
    CHECK(contains(report.worst, "backward says"));
    CHECK(contains(report.worst, "differences say"));
  }
  const GradCheckReport one = check_elementwise(points, cube, faults[5].derivative);
  CHECK(contains(one.worst, "input 0, element 17:"));
}

TEST_CASE("a fault in one of several inputs is named") {
  const auto f = [](Inputs x) {
    Tensor y = detached(x[0]) * detached(x[1]);
    record("half_right", {x[0], x[1]}, y, [a = Saved(x[0]), b = Saved(x[1])](Backward& back) {
      back.give(0, back.grad() * back.saved(b));
      back.give(1, back.grad() * back.saved(b));
    });
    return y;
  };
  const GradCheckReport report = check_gradient(f, {tensor({5}), tensor({5}, 2.0, 2)});
  CHECK_FALSE(report);
  CHECK(report.checked == 10);
  CHECK(contains(report.worst, "input 1,"));
}

TEST_CASE("a wrong broadcast sum is caught") {
  const auto f = [](Inputs x) {
    Tensor y = detached(x[0]) + detached(x[1]);
    record("first_row_only", {x[0], x[1]}, y, [](Backward& b) {
      b.give(0, b.grad());
      b.give(1, rows(b.grad(), 0, 1));
    });
    return y;
  };
  CHECK_FALSE(check_gradient(f, {tensor({4, 3}), tensor({3})}));
  CHECK(check_gradient(f, {tensor({1, 3}), tensor({3})}));
}

const Scalar relu_of = [](double x) { return x > 0 ? x : 0; };
const Scalar abs_of = [](double x) { return std::abs(x); };

TEST_CASE("kinks do not count against a right derivative") {
  struct Kinked {
    const char* name;
    std::function<Tensor(const Tensor&)> f;
    std::vector<double> at;
  };
  const Kinked all[] = {
      {"relu", [](const Tensor& x) { return relu(x); }, {0, -0.0}},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, {.negative_slope = 0.3}); }, {0}},
      {"elu", [](const Tensor& x) { return elu(x, {.alpha = 2}); }, {0}},
      {"relu6", [](const Tensor& x) { return relu6(x); }, {0, 6}},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, {-1, 1}},
      {"hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); }, {-3, 3}},
      {"hardswish", [](const Tensor& x) { return hardswish(x); }, {-3, 3}},
      {"softshrink", [](const Tensor& x) { return softshrink(x); }, {-0.5, 0.5}},
      {"hardshrink", [](const Tensor& x) { return hardshrink(x); }, {-0.5, 0.5}}};
  for (const Kinked& one : all) {
    // Exactly at a kink, and on either side of it at every distance.
    std::vector<double> points;
    for (const double kink : one.at) {
      for (const double distance : {0.0, 1e-12, 1e-8, 1e-7, 5e-7, 2e-6, 5e-6, 3e-5, 1e-4, 0.01}) {
        points.push_back(kink + distance);
        points.push_back(kink - distance);
      }
    }
    CAPTURE(one.name);
    const Tensor x = Tensor::from(points, {static_cast<std::int64_t>(points.size())});
    const GradCheckReport report = check_gradient([&](Inputs in) { return one.f(in[0]); }, {x});
    CHECK_MESSAGE(report.passed, report.worst);
    CHECK(report.at_kinks > 0);
    CHECK(report.at_kinks < report.checked);
  }
}

TEST_CASE("a small jump of the derivative is a kink too") {
  const GradCheckReport report =
      check_gradient([](Inputs x) { return leaky_relu(x[0], {.negative_slope = 0.9998}); },
                     {Tensor::zeros({3}, DType::float64)});
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(report.at_kinks == 3);
}

TEST_CASE("at a kink only what lies between the one-sided derivatives is accepted") {
  const auto accepts = [](const Scalar& f, double at, double says) {
    return check_elementwise({at}, f, [says](double, std::size_t) { return says; }).passed;
  };
  for (const double inside : {-1.0, -0.3, 0.0, 1.0}) {
    CHECK(accepts(abs_of, 0, inside));
  }
  for (const double outside : {-1.001, 1.0001, 2.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CAPTURE(outside);
    CHECK_FALSE(accepts(abs_of, 0, outside));
  }
  CHECK(accepts(relu_of, 0, 0));
  CHECK(accepts(relu_of, 0, 1));
  CHECK_FALSE(accepts(relu_of, 0, -0.001));
  CHECK_FALSE(accepts(relu_of, 0, 1.001));
  // Close by, the side that it is on is the right one.
  CHECK(accepts(relu_of, 1e-7, 1));
  CHECK_FALSE(accepts(relu_of, 1e-7, 0));
  CHECK_FALSE(accepts(relu_of, -1e-7, 1));
  // Further away there is no kink to excuse anything.
  for (const double at : {2e-6, 1e-5, 1e-3, 1.0}) {
    CAPTURE(at);
    CHECK_FALSE(accepts(relu_of, at, 0.5));
    CHECK_FALSE(accepts(relu_of, -at, 0.5));
  }
}

TEST_CASE("a strong curvature is no kink") {
  // The one-sided slopes of 1e4 x^2 at 0 differ by 2e4 steps, and shrink with the step.
  const auto accepts = [](double says) {
    return check_elementwise(
               {0.0}, [](double x) { return 1e4 * x * x; },
               [says](double, std::size_t) { return says; })
        .passed;
  };
  CHECK(accepts(0));
  CHECK_FALSE(accepts(0.005));
  CHECK_FALSE(accepts(-0.001));
}

TEST_CASE("at_most spreads what is checked over the input") {
  std::vector<std::size_t> wrong{0, 25, 50, 75};
  const auto report = [](std::size_t bad) {
    return check_elementwise(
        numbers(100, 3.0), cube,
        [bad](double x, std::size_t i) { return cube_slope(x) + (i == bad ? 0.1 : 0); },
        {.at_most = 4});
  };
  for (const std::size_t bad : wrong) {
    CHECK(report(bad).checked == 4);
    CHECK_FALSE(report(bad));
  }
  CHECK(report(1));  // not looked at
  CHECK(check_elementwise({1.0, 2.0}, cube, [](double x, std::size_t) { return cube_slope(x); },
                          {.at_most = 10})
            .checked == 2);
}

TEST_CASE("the options are obeyed") {
  const auto slightly_wrong = [](double x, std::size_t) { return cube_slope(x) * (1 + 1e-4); };
  CHECK_FALSE(check_elementwise({1.5}, cube, slightly_wrong, {.tolerance = 9e-5}));
  CHECK(check_elementwise({1.5}, cube, slightly_wrong, {.tolerance = 1.1e-4}));
  // A coarse step sees the third derivative, 1e-2 of it at step 0.1.
  const auto right = [](double x, std::size_t) { return cube_slope(x); };
  CHECK(check_elementwise({1.5}, cube, right, {.step = 0.1}).worst_error > 1e-8);
}

TEST_CASE("a function that draws new masks every time is not accepted") {
  const auto generator = std::make_shared<Generator>(1);
  const auto f = [&](Inputs x) { return dropout(x[0], {0.5, generator}); };
  CHECK_FALSE(check_gradient(f, {tensor({20})}));
}

TEST_CASE("inputs are left alone, and must be float64") {
  Tensor x = leaf({3});
  const std::vector<double> before = doubles(x);
  CHECK(check_gradient([](Inputs in) { return in[0] * in[0]; }, {x}));
  CHECK(doubles(x) == before);
  CHECK_FALSE(x.grad().defined());
  CHECK(Tape::current() == nullptr);
  check_error([] { check_gradient([](Inputs in) { return in[0]; }, {Tensor::zeros({2})}); },
              {"check_gradient", "float64", "float32"});
  check_error([&] { check_gradient([](Inputs in) { return in[0].detach() * 2.0; }, {x}); },
              {"not recorded"});
}

TEST_CASE("an input without influence has derivative 0, and a lost gradient is a fault") {
  const std::vector<Tensor> inputs{tensor({3}), tensor({3}, 2.0, 2)};
  CHECK(check_gradient([](Inputs x) { return x[0] * 2.0; }, inputs));
  CHECK_FALSE(check_gradient([](Inputs x) { return x[0] * x[1].detach(); }, inputs));
}

TEST_CASE("a leaf on another device is checked there") {
  const QuietFallback quiet;
  const GradCheckReport report = check_gradient([](Inputs x) { return sigmoid(x[0]) * x[0]; },
                                                {tensor({5}).to(Device::fake())});
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(report.checked == 5);
}

}  // namespace
}  // namespace sinter
