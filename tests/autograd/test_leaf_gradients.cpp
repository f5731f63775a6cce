// Where gradients end up: sums, overwriting and adding, and whose memory they are in.
#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

template <class F>
void backward(F f) {
  Tape tape;
  tape.backward(f());
}

TEST_CASE("gradients add until they are consumed, then are overwritten") {
  Tensor x = leaf_of({1.0, 2.0});
  CHECK_FALSE(x.grad().defined());
  backward([&] { return sum(x * 3.0); });
  CHECK(doubles(x.grad()) == Numbers{3, 3});
  const std::byte* place = x.grad().address();
  backward([&] { return sum(x * x); });
  CHECK(doubles(x.grad()) == Numbers{5, 7});
  x.clear_grad();
  CHECK_FALSE(x.grad().defined());
  backward([&] { return sum(x * 5.0); });
  CHECK(doubles(x.grad()) == Numbers{5, 5});
  CHECK(x.grad().address() == place);
}

TEST_CASE("matrix products add into, and overwrite, the gradient in place") {
  Tensor w = leaf({2, 3});
  Tensor b = leaf({2}, 2.0, 2);
  const Tensor x = Tensor::from({1.0, 2.0, 3.0}, {1, 3});
  const auto loss = [&] { return sum(linear(x, w, b)); };
  backward(loss);
  const std::byte* place = w.grad().address();
  CHECK(doubles(w.grad()) == Numbers{1, 2, 3, 1, 2, 3});
  CHECK(doubles(b.grad()) == Numbers{1, 1});
  backward(loss);
  CHECK(doubles(w.grad()) == Numbers{2, 4, 6, 2, 4, 6});
  CHECK(doubles(b.grad()) == Numbers{2, 2});
  w.clear_grad();
  b.clear_grad();
  backward(loss);
  CHECK(doubles(w.grad()) == Numbers{1, 2, 3, 1, 2, 3});
  CHECK(doubles(b.grad()) == Numbers{1, 1});
  CHECK(w.grad().address() == place);
}

TEST_CASE("a value used more than once gets the sum") {
  Tensor x = leaf_of({2.0});
  backward([&] {
    const Tensor y = x * 3.0;
    return y * y + y + x;  // 9 x^2 + 4 x
  });
  CHECK(doubles(x.grad()) == Numbers{40});
  x.clear_grad();
  backward([&] { return x + x; });
  CHECK(doubles(x.grad()) == Numbers{2});
  x.clear_grad();
  backward([&] { return x - x; });
  CHECK(doubles(x.grad()) == Numbers{0});
  x.clear_grad();
  backward([&] { return x / x; });
  CHECK(doubles(x.grad()) == Numbers{0});
}

TEST_CASE("the gradients of a + b are not one buffer") {
  Tensor a = leaf_of({1.0, 2.0});
  Tensor b = leaf_of({3.0, 4.0});
  {
    Tape tape;
    const Tensor incoming = Tensor::from({5.0, 6.0}, {2});
    tape.backward(a + b, incoming);
    CHECK(a.grad().address() != b.grad().address());
    CHECK(a.grad().address() != incoming.address());
  }
  Tensor grad = a.grad();
  grad.fill(0);
  CHECK(doubles(b.grad()) == Numbers{5, 6});
  // What a backward adds to one must not reach the other, nor a value in between.
  a.clear_grad();
  b.clear_grad();
  backward([&] {
    const Tensor sum_of_both = a + b;
    const Tensor x = a * 1.0;
    const Tensor y = b * 1.0;
    return sum((x + y) + x * 10.0 + sum_of_both);
  });
  CHECK(doubles(a.grad()) == Numbers{12, 12});
  CHECK(doubles(b.grad()) == Numbers{2, 2});
}

TEST_CASE("gradients that go through views of one value are added") {
  Tensor x = leaf({2, 3});
  backward([&] {
    const Tensor y = x * 2.0;
    return sum(y.reshape({6}) * y.reshape({6})) + sum(rows(y, 0, 1)) + sum(flatten(y));
  });
  const Numbers values = doubles(x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(doubles(x.grad())[i] == doctest::Approx(8 * values[i] + (i < 3 ? 4 : 2)));
  }
}

TEST_CASE("the handles of a leaf share its gradient") {
  Tensor x = leaf_of({1.0, 2.0});
  const Tensor handle = x;
  const Tensor view = x.reshape({2, 1});
  backward([&] { return sum(x * 1.0) + sum(view * 10.0) + sum(handle * 100.0); });
  CHECK(doubles(x.grad()) == Numbers{111, 111});
  CHECK(handle.grad().address() == x.grad().address());
  CHECK(x.grad().shape() == Shape{2});
  x.clear_grad();
  CHECK_FALSE(handle.grad().defined());
}

TEST_CASE("a gradient is written straight into the slice of a flat buffer") {
  Tensor values = Tensor::from(numbers(128, 1.0), {128});
  Tensor gradients = Tensor::full({128}, -1.0, DType::float64);
  Tensor w = values.slice(0, {2, 3});
  Tensor b = values.slice(64, {2});
  for (Tensor* parameter : {&w, &b}) {
    parameter->set_requires_grad();
    parameter->leaf()->grad = gradients.slice(parameter == &w ? 0 : 64, parameter->shape());
  }
  const std::byte* places[] = {w.leaf()->grad.address(), b.leaf()->grad.address()};
  const Tensor x = Tensor::from({1.0, 2.0, 3.0}, {1, 3});
  for (const double times : {1.0, 2.0}) {
    backward([&] { return sum(linear(x, w, b)); });
    CHECK(w.grad().address() == places[0]);
    CHECK(b.grad().address() == places[1]);
    Numbers expected(128, -1.0);
    for (std::size_t i = 0; i < 6; ++i) {
      expected[i] = times * static_cast<double>(i % 3 + 1);
    }
    expected[64] = expected[65] = times;
    CHECK(doubles(gradients) == expected);  // and nothing beside it
  }
}

TEST_CASE("a leaf made of a copy is a leaf of its own") {
  Tensor x = leaf_of({1.0, 2.0});
  Tensor copy = x.detach().clone();
  CHECK_FALSE(copy.requires_grad());
  copy.set_requires_grad();
  backward([&] { return sum(x * copy); });
  CHECK(doubles(x.grad()) == Numbers{1, 2});
  x.set_requires_grad(false);
  CHECK_FALSE(x.requires_grad());
  CHECK_FALSE(x.grad().defined());
  check_error([] { Tensor::zeros({2}, DType::int64).set_requires_grad(); }, {"int64", "floating"});
  check_error([] { Tensor{}.set_requires_grad(); }, {"undefined"});
  const Tape tape;
  Tensor y = copy * 2.0;
  check_error([&] { y.set_requires_grad(); }, {"recorded by a tape", "detach()"});
}

TEST_CASE("functions of recorded values that would lose the gradient refuse") {
  Tensor x = leaf({2, 3});
  const Tape tape;
  const Tensor y = x * 2.0;
  for (const Tensor& known : {x, y}) {
    check_error([&] { known.view_rows(0, 1); }, {"view_rows", "sinter::rows"});
    check_error([&] { known.clone(); }, {"Tensor::clone", "detach()"});
    check_error([&] { known.to(DType::float32); }, {"Tensor::to", "detach()"});
    check_error([&] { known.to(Device::fake()); }, {"Tensor::to", "detach()"});
  }
  CHECK(y.to(DType::float64).slot().tape == y.slot().tape);  // nothing to do, nothing lost
}

TEST_CASE("16-bit leaves get 16-bit gradients") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Tensor x = Tensor::from({1.0, -2.0, 0.5}, {3}).to(dtype);
    x.set_requires_grad();
    backward([&] { return sum(x * x); });
    CHECK(x.grad().dtype() == dtype);
    CHECK(doubles(x.grad()) == Numbers{2, -4, 1});
  }
}

TEST_CASE("gradients of 0 for what did not matter, and none for what was not used") {
  Tensor x = leaf_of({1.0, 2.0});
  Tensor unused = leaf_of({1.0});
  backward([&] { return sum(x * 0.0); });
  CHECK(doubles(x.grad()) == Numbers{0, 0});
  CHECK_FALSE(unused.grad().defined());
}

}  // namespace
}  // namespace sinter
