// In-place writes: right where they are allowed, and never a wrong gradient without a word.
#include <functional>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

TEST_CASE("values of the in-place operators, broadcast") {
  Tensor y = Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2});
  const Tensor handle = y;
  y += Tensor::from({10.0, 20.0}, {2});
  CHECK(doubles(y) == Numbers{11, 22, 13, 24});
  y -= Tensor::from({1.0, 2.0}, {2, 1});
  CHECK(doubles(y) == Numbers{10, 21, 11, 22});
  y += 1.0;
  y *= -2.0;
  CHECK(doubles(y) == Numbers{-22, -44, -24, -46});
  CHECK(doubles(handle) == doubles(y));  // every handle sees it
  check_error([&] { y += tensor({3, 2, 2}); }, {"add", "keep the shape [2, 2]", "[3, 2, 2]"});
  check_error([&] { y -= tensor({3}); }, {"subtract", "[2, 2]", "[3]"});
  Tensor row = tensor({1, 2});
  check_error([&] { row += tensor({2, 2}); }, {"keep the shape [1, 2]"});
  check_error([&] { y += Tensor::zeros({2}); }, {"float64", "float32"});
}

TEST_CASE("an operand that overlaps the result is read before it is written") {
  Tensor y = Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2});
  y += rows(y, 0, 1);
  CHECK(doubles(y) == Numbers{2, 4, 4, 6});
  y -= rows(y, 1, 2);
  CHECK(doubles(y) == Numbers{-2, -2, 0, 0});
  Tensor flat = Tensor::from({1.0, 2.0, 3.0, 4.0}, {4});
  Tensor whole = flat.slice(0, {2, 2});
  whole += flat.slice(1, {2});
  CHECK(doubles(flat) == Numbers{3, 5, 5, 7});
  Tensor z = Tensor::from({1.0, 2.0}, {2});
  z += z;
  CHECK(doubles(z) == Numbers{2, 4});
  const Tensor& itself = z;
  z -= itself;
  CHECK(doubles(z) == Numbers{0, 0});
}

// Each way of writing to the elements of y.
struct Write {
  const char* name;
  std::function<void(Tensor& y)> write;
};

const std::vector<Write>& writes() {
  static const std::vector<Write> all{
      {"+= number", [](Tensor& y) { y += 1.0; }},
      {"*= number", [](Tensor& y) { y *= 2.0; }},
      {"+= tensor", [](Tensor& y) { y += Tensor::full(y.shape(), 1.0, DType::float64); }},
      {"-= tensor", [](Tensor& y) { y -= Tensor::full(y.shape(), 1.0, DType::float64); }},
      {"through a view",
       [](Tensor& y) {
         Tensor view = y.reshape({y.numel(), 1});
         view += 1.0;
       }},
      {"through rows",
       [](Tensor& y) {
         Tensor view = rows(y, 0, 1);
         view += 1.0;
       }},
      {"through a detached handle",
       [](Tensor& y) {
         Tensor handle = y.detach();
         handle += 1.0;
       }},
      {"copy_from", [](Tensor& y) { y.copy_from(Tensor::zeros(y.shape(), DType::float64)); }},
      {"copy_from a span",
       [](Tensor& y) { y.copy_from(std::span<const double>(Numbers(std::size_t(y.numel())))); }},
      {"fill", [](Tensor& y) { y.fill(1.0); }},
      {"raw, then bump_version", [](Tensor& y) {
         y.data<double>()[0] = 1.0;
         y.bump_version();
       }}};
  return all;
}

TEST_CASE("writing to what backward needs is an error that names the function") {
  for (const Write& write : writes()) {
    CAPTURE(write.name);
    Tensor x = leaf_of({0.5, -1.0});
    Tape tape;
    Tensor y = sigmoid(x);
    const Tensor other = y * 1.0;
    write.write(y);
    check_error([&] { tape.backward(sum(other)); },
                {"sigmoid", "[2]", "written to in place", "y = y + x"});
    CHECK_FALSE(x.grad().defined());
  }
}

TEST_CASE("y = sigmoid(x); y += 1; backward") {
  Tensor x = leaf_of({0.5, -1.0});
  Tape tape;
  Tensor y = sigmoid(x);
  y += 1.0;
  check_error([&] { tape.backward(sum(y)); }, {"sigmoid", "in place"});
  Tape second;
  Tensor z = sigmoid(x);
  z = z + 1.0;  // the cure that the message names
  second.backward(sum(z));
  CHECK(x.grad().defined());
}

TEST_CASE("every function that keeps something notices") {
  Tensor x = leaf({2, 2});
  Tensor w = leaf({2, 2}, 2.0, 2);
  struct Function {
    const char* name;
    std::function<Tensor(const Tensor&, const Tensor&)> f;
  };
  const Function functions[] = {
      {"multiply", [](auto& a, auto& b) { return a * b; }},
      {"divide", [](auto& a, auto& b) { return a / b; }},
      {"matmul", [](auto& a, auto& b) { return matmul(a, b); }},
      {"linear", [](auto& a, auto& b) { return linear(a, b); }},
      {"linear", [](auto& a, auto& b) { return linear_activation(a, b, {}, math::GELU{}); }},
      {"gelu", [](auto& a, auto&) { return gelu(a); }}};
  for (const Function& function : functions) {
    CAPTURE(function.name);
    for (const Tensor& written : {x, w}) {
      if (function.name == std::string("gelu") && written.leaf() == w.leaf()) {
        continue;
      }
      Tape tape;
      const Tensor loss = sum(function.f(x, w));
      Tensor elements = written.detach();
      elements.copy_from(elements.clone());  // what an optimizer does: same place, new version
      check_error([&] { tape.backward(loss); }, {function.name, "[2, 2]", "optimizer step"});
    }
  }
}

TEST_CASE("an optimizer's write to the flat buffer between forward and backward is noticed") {
  Tensor flat = Tensor::from(numbers(8), {8});
  Tensor first = flat.slice(0, {2, 2});
  Tensor second = flat.slice(4, {2, 2});
  first.set_requires_grad();
  second.set_requires_grad();
  const Tensor x = tensor({3, 2}, 1.0, 5);
  {
    Tape tape;
    const Tensor loss = sum(linear(tanh(linear(x, first)), second));
    flat += 0.1;  // all parameters at once
    check_error([&] { tape.backward(loss); }, {"linear", "optimizer step"});
  }
  {
    // A write to a neighbour is none of ours.
    Tape tape;
    const Tensor loss = sum(tanh(linear(x, first)));
    Tensor neighbour = second.detach();
    neighbour += 0.1;
    tape.backward(loss);
    CHECK(first.grad().defined());
  }
  {
    Tape tape;
    const Tensor loss = sum(tanh(linear(x, first)));
    tape.backward(loss);
    flat += 0.1;  // after backward all is well
  }
}

TEST_CASE("writing where nothing was kept is allowed, and the gradient is right") {
  Tensor x = leaf_of({0.5, -1.0});
  Tape tape;
  Tensor y = x * 3.0;  // keeps nothing of y
  y += 1.0;
  y *= 2.0;
  y += x;
  Tensor z = gelu_tanh(x);  // keeps its input only
  z += y;
  tape.backward(sum(z));
  const double step = 1e-6;
  const auto f = [](double v) {
    const double k = std::sqrt(2 / 3.14159265358979323846);
    return v * (1 + std::tanh(k * (v + 0.044715 * v * v * v))) / 2 + 7 * v;
  };
  for (std::size_t i = 0; i < 2; ++i) {
    const double at = i == 0 ? 0.5 : -1.0;
    CHECK(doubles(x.grad())[i] ==
          doctest::Approx((f(at + step) - f(at - step)) / (2 * step)).epsilon(1e-8));
  }
}

TEST_CASE("a handle that another one wrote through is stale") {
  Tensor x = leaf_of({0.5, -1.0});
  Tape tape;
  Tensor y = x * 3.0;
  const Tensor stale = y;
  const Tensor stale_view = y.reshape({1, 2});
  y += 1.0;
  check_error([&] { stale * 2.0; }, {"affine", "[2]", "in place", "another handle"});
  check_error([&] { x + stale; }, {"add", "another handle"});
  check_error([&] { sum(stale_view); }, {"sum", "[1, 2]", "another handle"});
  check_error([&] { tape.backward(stale, y.detach()); }, {"written to in place"});
  tape.backward(sum(y));  // the handle that wrote is the value
  CHECK(doubles(x.grad()) == Numbers{3, 3});
}

TEST_CASE("a detached handle is numbers, also of a value that was written to in place") {
  Tensor x = leaf_of({1.0, 2.0});
  Tape tape;
  Tensor y = x * 3.0;
  y += 1.0;
  CHECK(doubles(y.detach() * 2.0) == Numbers{8, 14});
  Tensor total = Tensor::zeros({}, DType::float64);
  Tensor loss = sum(y);
  loss *= 0.5;
  total += loss.detach();
  CHECK(total.item() == 5.5);
  // As a function of one's own computes on its inputs.
  Tensor squared = detached(y) * detached(y);
  record("square", {y}, squared,
         [kept = Saved(y)](Backward& b) { b.give(0, b.grad() * b.saved(kept) * 2.0); });
  tape.backward(loss + sum(squared));
  CHECK(doubles(x.grad()) == Numbers{25.5, 43.5});  // 1.5 + 6 (3 x + 1)
}

TEST_CASE("a value computed before an in-place write keeps its own gradient") {
  Tensor x = leaf_of({1.0, 2.0});
  Tape tape;
  Tensor y = x * 3.0;
  const Tensor before = y * 2.0;
  y += before;
  tape.backward(sum(y + before));
  CHECK(doubles(x.grad()) == Numbers{15, 15});
}

TEST_CASE("a leaf cannot be changed in place while a tape records") {
  Tensor x = leaf_of({1.0, 2.0});
  Tensor view = x.reshape({2, 1});
  const Tensor other = Tensor::from({1.0, 1.0}, {2});
  {
    const Tape tape;
    check_error([&] { x += other; }, {"add", "leaf", "in place"});
    check_error([&] { x -= other; }, {"subtract", "leaf"});
    check_error([&] { x += 1.0; }, {"leaf"});
    check_error([&] { x *= 2.0; }, {"leaf"});
    check_error([&] { view += 1.0; }, {"leaf"});
    CHECK(doubles(x) == Numbers{1, 2});  // and it was not
    const NoTape no_tape;
    x += 1.0;
  }
  x *= 2.0;
  CHECK(doubles(x) == Numbers{4, 6});
  CHECK(x.requires_grad());
}

}  // namespace
}  // namespace sinter
