// What a tape records, and what it refuses.
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

bool is_recorded(const Tensor& x) { return x.slot().tape != 0; }

TEST_CASE("without a tape nothing is recorded") {
  Tensor x = leaf_of({1.0, 2.0});
  CHECK(Tape::current() == nullptr);
  const Tensor y = sum(x * x);
  CHECK(y.item() == 5);
  CHECK_FALSE(is_recorded(y));
  CHECK_FALSE(y.requires_grad());
  Tape tape;
  check_error([&] { tape.backward(y); }, {"Tape::backward", "not recorded", "before the tape"});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("only what depends on a leaf is recorded") {
  Tensor x = leaf_of({1.0, 2.0});
  const Tensor constant = Tensor::from({3.0, 4.0}, {2});
  Tape tape;
  const Tensor other = constant * constant + 1.0;
  CHECK(tape.size() == 0);
  CHECK_FALSE(is_recorded(other));
  const Tensor y = x * constant;
  CHECK(tape.size() == 1);
  CHECK(is_recorded(y));
  CHECK_FALSE(is_recorded(y.detach()));
  CHECK(is_recorded(y.reshape({2, 1})));
  CHECK(tape.size() == 1);  // a view is no function
  check_error([&] { tape.backward(sum(other)); }, {"not recorded"});
  tape.backward(sum(y));  // the tape is still good
  CHECK(doubles(x.grad()) == Numbers{3, 4});
}

TEST_CASE("backward runs once") {
  Tensor x = leaf_of({1.0, 2.0});
  Tape tape;
  const Tensor y = x * x;
  const Tensor loss = sum(y);
  tape.backward(loss);
  check_error([&] { tape.backward(loss); }, {"Tape::backward", "already run", "new Tape"});
  check_error([&] { tape.backward(sum(y)); }, {"already run"});
  check_error([&] { y + 1.0; }, {"already run on this tape"});
  const Tensor again = x * x;  // from leaves alone: computes, but this tape is spent
  CHECK(doubles(again) == Numbers{1, 4});
  check_error([&] { sum(again); }, {"already run"});
  check_error([&] { tape.backward(again, again.detach()); }, {"already run"});
  CHECK(doubles(x.grad()) == Numbers{2, 4});
}

TEST_CASE("a loss that is no scalar needs a gradient") {
  Tensor x = leaf_of({1.0, 2.0});
  Tape tape;
  const Tensor y = x * x;
  check_error([&] { tape.backward(y); }, {"one element", "[2]", "mean or sum"});
  check_error([&] { tape.backward(Tensor{}); }, {"Tape::backward"});
  check_error([&] { tape.backward(y, Tensor::full({3}, 1.0, DType::float64)); }, {"[2]"});
  check_error([&] { tape.backward(y, Tensor::full({2}, 1.0)); }, {"float64"});
  check_error([&] { tape.backward(y, Tensor{}); }, {"shape, type and device"});
  check_error([&] { tape.backward(y, Tensor::zeros({2}, DType::float64, Device::fake())); },
              {"device"});
  const Tensor gradient = Tensor::from({10.0, -1.0}, {2});
  tape.backward(y, gradient);
  CHECK(doubles(x.grad()) == Numbers{20, -4});
  CHECK(doubles(gradient) == Numbers{10, -1});
}

TEST_CASE("the gradient that the caller gave is never written to") {
  Tensor x = leaf_of({1.0, 2.0});
  Tensor gradient = Tensor::from({10.0, -1.0}, {2});
  Tape tape;
  const Tensor y = x * 2.0;
  // It comes into y, from there to both terms, and one of them gets a second one added.
  const Tensor z = y * 3.0;
  tape.backward(z + y + z, gradient);
  CHECK(doubles(x.grad()) == Numbers{140, -14});
  CHECK(doubles(gradient) == Numbers{10, -1});
  CHECK(x.grad().address() != gradient.address());
}

TEST_CASE("one element of any shape is a loss") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
    Tensor x = leaf_of({3.0});
    Tape tape;
    const Tensor y = (x * x).reshape(shape);
    tape.backward(y);
    CHECK(doubles(x.grad()) == Numbers{6});
    CHECK(x.grad().shape() == Shape{1});
  }
}

TEST_CASE("a value belongs to its tape") {
  Tensor x = leaf_of({1.0, 2.0});
  Tensor kept;
  {
    Tape tape;
    kept = x * x;
    const Tape inner;
    check_error([&] { kept + 1.0; }, {"affine", "[2]", "another tape"});
    check_error([&] { kept* x; }, {"multiply", "another tape"});
    check_error([&] { x - kept; }, {"subtract", "another tape"});
    check_error([&] { sigmoid(kept); }, {"another tape"});
    check_error([&] { sum(kept); }, {"sum", "another tape"});
    check_error([&] { kept += x; }, {"another tape"});
  }
  CHECK(doubles(kept) == Numbers{1, 4});
  CHECK(doubles(kept + 1.0) == Numbers{2, 5});  // without a tape it is numbers
  Tape tape;
  check_error([&] { kept + 1.0; }, {"affine", "one that has gone", "detach()", "item()"});
  check_error([&] { kept.reshape({1, 2}) + 1.0; }, {"one that has gone"});
  check_error([&] { tape.backward(kept, kept.detach()); }, {"not recorded by this tape"});
  const Tensor loss = sum(kept.detach() * x);
  tape.backward(loss);
  CHECK(doubles(x.grad()) == Numbers{1, 4});
}

TEST_CASE("tapes nest, the latest records") {
  Tensor x = leaf_of({3.0});
  Tape outer;
  const Tensor y = x * 2.0;
  {
    Tape inner;
    CHECK(Tape::current() == &inner);
    inner.backward(x * x);
    CHECK(inner.size() == 0);
    CHECK(outer.size() == 1);
    CHECK(doubles(x.grad()) == Numbers{6});
  }
  CHECK(Tape::current() == &outer);
  x.clear_grad();
  {
    const Tape idle;
    outer.backward(y);  // may run while another records
    CHECK(Tape::current() == &idle);
  }
  CHECK(doubles(x.grad()) == Numbers{2});
}

TEST_CASE("tapes may go in any order") {
  Tensor x = leaf_of({3.0});
  auto first = std::make_unique<Tape>();
  auto second = std::make_unique<Tape>();
  auto third = std::make_unique<Tape>();
  second.reset();
  CHECK(Tape::current() == third.get());
  third.reset();
  CHECK(Tape::current() == first.get());
  first->backward(x * x);
  CHECK(doubles(x.grad()) == Numbers{6});
  first.reset();
  CHECK(Tape::current() == nullptr);
}

TEST_CASE("NoTape suspends recording") {
  Tensor x = leaf_of({3.0});
  Tape tape;
  Tensor y = x * x;
  {
    const NoTape no_tape;
    CHECK(Tape::current() == nullptr);
    CHECK_FALSE(is_recorded(x * x));
    CHECK_FALSE(is_recorded(y * 2.0));  // numbers only, no error
    {
      Tape inner;
      inner.backward(x * 5.0);
      CHECK(doubles(x.grad()) == Numbers{5});
      x.clear_grad();
    }
    const NoTape nested;
    CHECK(Tape::current() == nullptr);
  }
  CHECK(Tape::current() == &tape);
  CHECK(tape.size() == 1);
  tape.backward(y);
  CHECK(doubles(x.grad()) == Numbers{6});
}

TEST_CASE("a tape records its own thread only") {
  Tensor x = leaf_of({3.0});
  Tape tape;
  std::thread([&] {
    CHECK(Tape::current() == nullptr);
    CHECK_FALSE(is_recorded(x * x));
    Tape own;
    own.backward(x * x);
  }).join();
  CHECK(Tape::current() == &tape);
  CHECK(tape.size() == 0);
  CHECK(doubles(x.grad()) == Numbers{6});
}

TEST_CASE("an exception between forward and backward ends the recording") {
  Tensor x = leaf_of({3.0});
  try {
    const Tape tape;
    const Tensor y = x * x;
    throw Error("in between");
  } catch (const Error&) {
  }
  CHECK(Tape::current() == nullptr);
  Tape tape;
  tape.backward(x * x);
  CHECK(doubles(x.grad()) == Numbers{6});
}

TEST_CASE("what the loss does not depend on is not walked") {
  Tensor x = leaf_of({3.0});
  Tensor unused = leaf_of({1.0});
  Tape tape;
  const Tensor loss = x * x;
  const Tensor later = loss * unused;  // recorded behind the loss
  CHECK(tape.size() == 2);
  tape.backward(loss);
  CHECK(doubles(x.grad()) == Numbers{6});
  CHECK_FALSE(unused.grad().defined());
}

TEST_CASE("operands that do not fit") {
  const Tensor x = tensor({2, 3});
  check_error([&] { x + tensor({2}); }, {"add", "[2, 3]", "[2]"});
  check_error([&] { x* tensor({4, 3}); }, {"multiply", "[2, 3]", "[4, 3]"});
  check_error([&] { x - Tensor::zeros({2, 3}); }, {"subtract", "float64", "float32", "to(dtype)"});
  check_error([&] { x / Tensor{}; }, {"divide", "undefined"});
  check_error([&] { Tensor::zeros({2}, DType::int64) + Tensor::zeros({2}, DType::int64); },
              {"add", "floating", "int64"});
  check_error([&] { Tensor::zeros({2}, DType::uint8) * 2.0; }, {"floating"});
  check_error(
      [&] {
        x + Tensor::zeros({2, 3}, DType::float64, Device::fake());
      },
      {"add", "cpu", "fake"});
  check_error([&] { matmul(x, x); }, {"matmul", "[2, 3]", "inner sizes"});
  check_error([&] { matmul(x, x, true, true); }, {"matmul", "transposed"});
  check_error([&] { matmul(x, tensor({3})); }, {"matmul", "two matrices", "[3]"});
  check_error([&] { linear(x, tensor({5, 4})); }, {"linear", "[..., 4]", "[2, 3]"});
  check_error([&] { linear(tensor({2, 2, 2}), tensor({5, 4})); }, {"put a Flatten before it"});
  check_error([&] { linear(x, tensor({3})); }, {"linear", "[out_features, in_features]", "[3]"});
  check_error([&] { linear(x, tensor({5, 3}), tensor({4})); }, {"bias", "[5]", "[4]"});
  check_error([&] { linear(x, Tensor::zeros({5, 3})); }, {"float64", "float32"});
  check_error([&] { relu(Tensor::zeros({2}, DType::int32)); }, {"floating", "int32"});
  check_error([&] { relu(Tensor{}); }, {"undefined"});
  check_error([&] { elu(x, {.alpha = -1}); }, {"elu", "alpha >= 0"});
  check_error(
      [&] {
        linear_activation(x, tensor({5, 3}), {}, math::ELU{.alpha = -1});
      },
      {"elu", "alpha >= 0"});
  check_error([&] { rows(x, 1, 3); }, {"[1, 3)", "[2, 3]"});
  check_error([&] { flatten(x, 2); }, {"flatten", "start_dim 2", "[2, 3]"});
  check_error([&] { flatten(x, -3); }, {"flatten", "start_dim -3"});
}

}  // namespace
}  // namespace sinter
