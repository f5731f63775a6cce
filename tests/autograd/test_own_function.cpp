// A differentiable function of one's own, as autograd/function.h describes it.
#include <limits>
#include <memory>
#include <stdexcept>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/gradcheck.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

// The example of autograd/function.h, word for word.
Tensor square(const Tensor& x) {
  Tensor y = detached(x) * detached(x);
  record("square", {x}, y, [x = Saved(x)](Backward& b) { b.give(0, b.grad() * b.saved(x) * 2.0); });
  return y;
}

TEST_CASE("square, the example of the header") {
  Tensor x = leaf({2, 3});
  CHECK_FALSE(needs_gradient(x));
  {
    Tape tape;
    CHECK(needs_gradient(x));
    const Tensor y = square(x);
    CHECK(tape.size() == 1);  // itself, and not what it is made of
    CHECK(needs_gradient(y));
    CHECK_FALSE(needs_gradient(y.detach()));
    tape.backward(sum(y));
  }
  const GradCheckReport report = check_gradient(
      [](std::span<const Tensor> in) { return square(square(in[0]) + in[0]); }, {tensor({2, 3})});
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(report.checked == 6);
}

TEST_CASE("a kept tensor that was written to names the own function") {
  Tensor x = leaf({2});
  Tape tape;
  const Tensor y = square(x);
  Tensor elements = x.detach();
  elements += 1.0;
  check_error([&] { tape.backward(sum(y)); }, {"square", "[2]", "in place"});
}

// a * b that counts how often each gradient is computed.
struct Counts {
  int left = 0, right = 0, calls = 0;
};

Tensor counted_product(const Tensor& a, const Tensor& b, Counts& counts) {
  Tensor y = detached(a) * detached(b);
  record("counted_product", {a, b}, y, [&counts, a = Saved(a), b = Saved(b)](Backward& back) {
    ++counts.calls;
    if (back.needs(0)) {
      ++counts.left;
      back.give(0, back.grad() * back.saved(b));
    }
    if (back.needs(1)) {
      ++counts.right;
    }
    back.write(1, back.saved(b).shape(), [&](Tensor& gradient, bool accumulate) {
      const Tensor term = back.grad() * back.saved(a);
      gradient.copy_from(accumulate ? gradient.detach() + term : term);
    });
  });
  return y;
}

TEST_CASE("gradients that nobody needs are not computed") {
  Tensor x = leaf_of({3.0});
  const Tensor constant = Tensor::from({5.0}, {1});
  {
    Counts counts;
    Tape tape;
    tape.backward(counted_product(x, constant, counts));
    CHECK(doubles(x.grad()) == Numbers{5});
    CHECK(counts.left == 1);
    CHECK(counts.right == 0);
  }
  x.clear_grad();
  {
    Counts counts;
    Tape tape;
    tape.backward(counted_product(constant, x, counts));
    CHECK(doubles(x.grad()) == Numbers{5});
    CHECK(counts.left == 0);
    CHECK(counts.right == 1);
  }
  {
    Counts counts;
    Tape tape;
    counted_product(constant, constant, counts);
    CHECK(tape.size() == 0);  // a constant is not recorded
    const Tensor off_the_path = counted_product(x, x, counts);
    tape.backward(x * 2.0);
    CHECK(counts.calls == 0);
  }
}

TEST_CASE("write() adds where a gradient is already, in a leaf or on the way") {
  Counts counts;
  const auto f = [&](std::span<const Tensor> in) {
    const Tensor y = in[1] * 2.0;
    return counted_product(in[0], in[1], counts) + counted_product(in[0], in[1], counts) +
           counted_product(in[0], y, counts) + y * y + counted_product(y, y, counts);
  };
  const GradCheckReport report = check_gradient(f, {tensor({4}), tensor({4}, 2.0, 2)});
  CHECK_MESSAGE(report.passed, report.worst);
  CHECK(counts.right > 0);
}

TEST_CASE("a gradient of the wrong size, or for an input that is not there, is an error") {
  const auto wrong = [](std::function<void(Backward&)> backward) {
    Tensor x = leaf({2, 3});
    Tape tape;
    Tensor y = detached(x) * 1.0;
    record("wrong", {x}, y, std::move(backward));
    tape.backward(sum(y));
  };
  check_error([&] { wrong([](Backward& b) { b.give(0, tensor({5})); }); },
              {"wrong", "[5]", "[2, 3]", "input 0"});
  check_error([&] { wrong([](Backward& b) { b.give(0, Tensor{}); }); }, {"wrong"});
  check_error([&] { wrong([](Backward& b) { b.give(1, tensor({2, 3})); }); }, {"wrong", "input 1"});
  check_error([&] { wrong([](Backward& b) { b.needs(-1); }); }, {"wrong", "input -1"});
  check_error([&] { wrong([](Backward& b) { b.write(7, {}, [](Tensor&, bool) {}); }); },
              {"wrong", "input 7"});
  wrong([](Backward& b) { b.give(0, tensor({6})); });  // a count that fits is a reshape
}

TEST_CASE("giving none leaves none, giving twice adds") {
  Tensor x = leaf_of({1.0});
  const auto run = [&](int times) {
    Tape tape;
    Tensor y = detached(x) * 1.0;
    record("given", {x}, y, [times](Backward& b) {
      for (int i = 0; i < times; ++i) {
        b.give(0, b.grad() * 3.0);
      }
    });
    tape.backward(y);
  };
  run(0);
  CHECK_FALSE(x.grad().defined());
  run(2);
  CHECK(doubles(x.grad()) == Numbers{6});
}

TEST_CASE("a gradient that shares the caller's memory is not written to") {
  Tensor kept = Tensor::from({1.0, 2.0, 3.0, 4.0}, {4});
  Tensor x = leaf_of({1.0, 1.0});
  Tape tape;
  const Tensor y = x * 1.0;
  Tensor first = detached(y) * 1.0;
  Tensor second = detached(y) * 1.0;
  const auto give_slice = [&kept](Backward& b) { b.give(0, kept.slice(2, {2})); };
  record("first", {y}, first, give_slice);
  record("second", {y}, second, give_slice);
  tape.backward(sum(first + second));
  CHECK(doubles(x.grad()) == Numbers{6, 8});
  CHECK(doubles(kept) == Numbers{1, 2, 3, 4});
}

struct Fire : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_CASE("an exception in a backward reaches the caller and leaves no half gradient") {
  Tensor x = leaf_of({1.0, 2.0});
  Tensor w = leaf_of({5.0, 6.0});
  const auto g = std::make_shared<Generator>(1);
  const std::size_t before = pool_stats(Device::cpu()).in_use;
  {
    Tape tape;
    Tensor y = detached(x) * 1.0;
    record("burning", {x}, y, [](Backward&) { throw Fire("disk on fire"); });
    const Tensor loss = sum(dropout(y, {0.5, g}) * w + x * x);
    bool caught = false;
    try {
      tape.backward(loss);
    } catch (const Fire& fire) {
      caught = std::string(fire.what()) == "disk on fire";
    }
    CHECK(caught);
    CHECK(Tape::current() == &tape);
    check_error([&] { tape.backward(loss); }, {"already run"});
  }
  // The gradients of w and of x * x were there when it burnt.
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());
  CHECK(g->step() == 0);
  {
    Tape tape;
    tape.backward(sum(x * w));
  }
  CHECK(doubles(x.grad()) == Numbers{5, 6});  // not added to what was left
  CHECK(doubles(w.grad()) == Numbers{1, 2});
  x = {};
  w = {};
  CHECK(pool_stats(Device::cpu()).in_use <= before);
}

TEST_CASE("inside a backward nothing is recorded, and another tape may run") {
  Tensor x = leaf_of({2.0});
  Tensor other = leaf_of({7.0});
  Tape tape;
  Tensor y = detached(x) * 1.0;
  record("nested", {x}, y, [&](Backward& b) {
    CHECK(Tape::current() == nullptr);
    CHECK_FALSE(needs_gradient(x));
    Tape inner;  // as a checkpointed part computes its own gradient
    Tensor local = other.detach();
    local.set_requires_grad();
    inner.backward(local * local);
    b.give(0, b.grad() * local.grad());
  });
  tape.backward(y);
  CHECK(doubles(x.grad()) == Numbers{14});
  CHECK_FALSE(other.grad().defined());
}

TEST_CASE("a recording says what backward will want, and nothing where it is off") {
  const Tensor x = leaf_of({2.0});
  const Tensor constant = Tensor::from({1.0}, {1});
  {
    const Recording off("off", {x, constant});
    CHECK_FALSE(off);
    CHECK_FALSE(off.needs(0));
  }
  const Tape tape;
  const Recording on("on", {x, constant});
  CHECK(on);
  CHECK(on.needs(0));
  CHECK_FALSE(on.needs(1));
  CHECK_FALSE(on.needs(2));
  CHECK_FALSE(Recording("off", {constant}).needs(0));
}

TEST_CASE("undefined inputs are allowed and need nothing") {
  Tensor x = leaf_of({2.0});
  Tape tape;
  Tensor y = detached(x) * 1.0;
  const Tensor absent;
  record("optional", {absent, x}, y, [](Backward& b) {
    CHECK_FALSE(b.needs(0));
    CHECK(b.needs(1));
    CHECK(b.grad_is_one());
    b.give(0, b.grad());
    b.give(1, b.grad() * 4.0);
  });
  tape.backward(y);
  CHECK(doubles(x.grad()) == Numbers{4});
}

}  // namespace
}  // namespace sinter
