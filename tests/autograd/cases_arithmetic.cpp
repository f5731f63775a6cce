// Gradient checks of arithmetic, sums and views.
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>

namespace sinter::testing {
namespace {

struct Shapes {
  Shape left, right;
};

// Which side is broadcast, and how: not at all, a row, both, a scalar, dimensions in front, middle.
const std::vector<Shapes>& shape_pairs() {
  static const std::vector<Shapes> pairs{
      {{2, 3}, {2, 3}},       {{2, 3}, {3}},   {{3}, {2, 3}},    {{1, 3}, {2, 1}}, {{2, 3}, {}},
      {{}, {2, 3}},           {{}, {}},        {{2, 3}, {2, 1}}, {{2, 3}, {1}},    {{2, 2, 3}, {3}},
      {{2, 1, 3}, {1, 4, 1}}, {{4}, {2, 3, 1}}};
  return pairs;
}

// Nowhere near 0, which a divisor must not be.
Tensor divisor(const Shape& shape) {
  std::vector<double> values = numbers(shape.numel(), 1.0, 4);
  for (double& value : values) {
    value += value < 0 ? -1.0 : 1.0;
  }
  return Tensor::from(values, shape);
}

using Binary = Tensor (*)(const Tensor&, const Tensor&);

void add_binary(GradientCases& cases, const std::string& symbol, Binary f) {
  for (const auto& [left, right] : shape_pairs()) {
    cases.push_back({"operator" + symbol + "(Tensor, Tensor)",
                     left.str() + " " + symbol + " " + right.str(),
                     [f](Inputs x) { return f(x[0], x[1]); },
                     {tensor(left), divisor(right)}});
  }
  cases.push_back({"operator" + symbol + "(Tensor, Tensor)",
                   "x " + symbol + " x",
                   [f](Inputs x) { return f(x[0], x[0]); },
                   {divisor({2, 3})}});
}

using Unary = Tensor (*)(const Tensor&);

void add_unary(GradientCases& cases, const std::string& function, const std::string& name, Unary f,
               const Shape& shape = {2, 3}) {
  cases.push_back({function, name, [f](Inputs x) { return f(x[0]); }, {tensor(shape)}});
}

using InPlace = void (*)(Tensor&, const Tensor&);

void add_in_place(GradientCases& cases, const std::string& symbol, InPlace f) {
  const std::string function = "operator" + symbol + "(Tensor, Tensor)";
  for (const Shape& right : {Shape{2, 3}, Shape{3}, Shape{2, 1}, Shape{}}) {
    cases.push_back({function,
                     "[2, 3] " + symbol + " " + right.str(),
                     [f](Inputs x) {
                       Tensor y = x[0] * 2.0;
                       f(y, x[1]);
                       return y * x[2];
                     },
                     {tensor({2, 3}), tensor(right, 2.0, 2), tensor({2, 3}, 2.0, 3)}});
  }
  cases.push_back({function,
                   "a constant " + symbol + " x",
                   [f](Inputs x) {
                     Tensor y = Tensor::full({2, 3}, 2.0, DType::float64);
                     f(y, x[0]);
                     return y * y;
                   },
                   {tensor({2, 3})}});
  cases.push_back({function,
                   "y " + symbol + " y",
                   [f](Inputs x) {
                     Tensor y = x[0] * 2.0;
                     f(y, y);
                     return y + x[0];
                   },
                   {tensor({2, 3})}});
}

void add_views(GradientCases& cases) {
  const std::string rows_name = "rows(Tensor, std::int64_t, std::int64_t)";
  const std::vector<Tensor> matrix{tensor({4, 3})};
  cases.push_back({rows_name, "the middle",
                   [](Inputs x) { return rows(x[0], 1, 3) * rows(x[0], 1, 3); }, matrix});
  cases.push_back({rows_name, "overlapping parts",
                   [](Inputs x) { return rows(x[0], 0, 3) * rows(x[0], 1, 4); }, matrix});
  cases.push_back({rows_name, "of a computed value, which is used elsewhere too",
                   [](Inputs x) {
                     const Tensor y = x[0] * x[0];
                     return rows(y, 3, 4) * y;
                   },
                   matrix});
  const std::string flatten_name = "flatten(Tensor, int)";
  for (const int start_dim : {0, 1, 2, -1, -2}) {
    cases.push_back({flatten_name,
                     "start_dim = " + std::to_string(start_dim),
                     [start_dim](Inputs x) { return flatten(x[0] * x[0], start_dim) * 3.0; },
                     {tensor({2, 3, 2})}});
  }
  cases.push_back({"Tensor::reshape",
                   "of a leaf and of a value",
                   [](Inputs x) {
                     const Tensor y = x[0].reshape({3, -1}) * x[1];
                     return y.reshape({2, 3}) * x[0];
                   },
                   {tensor({2, 3}), tensor({3, 2}, 2.0, 2)}});
}

}  // namespace

GradientCases arithmetic_cases() {
  GradientCases cases;
  add_binary(cases, "+", [](const Tensor& a, const Tensor& b) { return a + b; });
  add_binary(cases, "-", [](const Tensor& a, const Tensor& b) { return a - b; });
  add_binary(cases, "*", [](const Tensor& a, const Tensor& b) { return a * b; });
  add_binary(cases, "/", [](const Tensor& a, const Tensor& b) { return a / b; });
  add_unary(cases, "operator+(Tensor, double)", "", [](const Tensor& a) { return a + 2.5; });
  add_unary(cases, "operator-(Tensor, double)", "", [](const Tensor& a) { return a - 2.5; });
  add_unary(cases, "operator*(Tensor, double)", "", [](const Tensor& a) { return a * 2.5; });
  add_unary(cases, "operator/(Tensor, double)", "", [](const Tensor& a) { return a / 2.5; });
  add_unary(cases, "operator+(double, Tensor)", "", [](const Tensor& a) { return 2.5 + a; });
  add_unary(cases, "operator-(double, Tensor)", "", [](const Tensor& a) { return 2.5 - a; });
  add_unary(cases, "operator*(double, Tensor)", "", [](const Tensor& a) { return 2.5 * a; });
  add_unary(cases, "operator-(Tensor)", "", [](const Tensor& a) { return -a; });
  // To the type that it has: from any other, finite differences would see the rounding alone.
  add_unary(cases, "cast(Tensor, DType)", "",
            [](const Tensor& a) { return cast(a * a, DType::float64) * a; });
  add_in_place(cases, "+=", [](Tensor& y, const Tensor& x) { y += x; });
  add_in_place(cases, "-=", [](Tensor& y, const Tensor& x) { y -= x; });
  add_unary(cases, "operator+=(Tensor, double)", "", [](const Tensor& a) {
    Tensor y = a * a;
    y += 2.5;
    return y * a;
  });
  add_unary(cases, "operator*=(Tensor, double)", "", [](const Tensor& a) {
    Tensor y = a + a;
    y *= -2.5;
    return y * a;
  });
  for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{1, 5}, Shape{2, 2, 2}}) {
    add_unary(
        cases, "sum(Tensor)", shape.str(), [](const Tensor& x) { return sum(x * x); }, shape);
    add_unary(
        cases, "mean(Tensor)", shape.str(), [](const Tensor& x) { return mean(x * x); }, shape);
  }
  add_views(cases);
  return cases;
}

}  // namespace sinter::testing
