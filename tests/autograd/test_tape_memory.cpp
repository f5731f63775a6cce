// What a tape costs: memory that stays flat however long a program runs, and no recursion.
#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

using namespace testing;

constexpr int steps = 10'000;

std::size_t in_use() { return pool_stats(Device::cpu()).in_use; }

// Runs `step` twice to warm up, then many times: neither memory nor its peak may grow.
template <class F>
void check_flat(F step) {
  step();
  step();
  const std::size_t before = in_use();
  reset_peak(Device::cpu());
  step();
  const std::size_t peak = pool_stats(Device::cpu()).peak_in_use;
  for (int i = 0; i < steps; ++i) {
    step();
  }
  CHECK(in_use() == before);
  CHECK(pool_stats(Device::cpu()).peak_in_use == peak);
}

TEST_CASE("10,000 steps, forwards without backward, and evaluations keep memory flat") {
  Tensor w = leaf({4, 8});
  const Tensor x = tensor({3, 8}, 1.0, 2);
  const auto forward = [&] { return mean(linear_activation(x, w, {}, math::GELU{})); };
  check_flat([&] {
    Tape tape;
    tape.backward(forward());
    w.clear_grad();
  });
  check_flat([&] { forward(); });
  check_flat([&] {
    const Tape tape;
    forward();
  });
  const Tape around;
  check_flat([&] {
    const NoTape no_tape;
    forward();
  });
  CHECK(around.size() == 0);
}

TEST_CASE("a sum of losses kept by mistake is an error at once, and its cure is flat") {
  Tensor w = leaf({4, 8});
  const auto loss = [&] { return mean(w * w); };
  Tensor total = Tensor::zeros({}, DType::float64);
  const auto careless = [&](Tensor& sum_of_losses) {
    Tape tape;
    const Tensor now = loss();
    sum_of_losses += now;
    tape.backward(now);
  };
  careless(total);
  check_error([&] { careless(total); }, {"add", "another tape", "detach()", "item()"});
  // The same without +=, and after backward.
  Tensor history = Tensor::zeros({}, DType::float64);
  check_error(
      [&] {
        for (int i = 0; i < 2; ++i) {
          Tape tape;
          history = history + loss();
        }
      },
      {"another tape", "item()"});
  {
    Tape tape;
    const Tensor now = loss();
    tape.backward(now);
    Tensor after = Tensor::zeros({}, DType::float64);
    check_error([&] { after += now; }, {"already run"});
    w.clear_grad();
  }
  Tensor detached_total = Tensor::zeros({}, DType::float64);
  double number = 0;
  check_flat([&] {
    Tape tape;
    const Tensor now = loss();
    tape.backward(now);
    detached_total += now.detach();
    number += now.item();
    w.clear_grad();
  });
  CHECK(number == doctest::Approx(detached_total.item()).epsilon(1e-12));
  CHECK(number == doctest::Approx((steps + 3) * loss().item()).epsilon(1e-9));
}

TEST_CASE("one tape around everything grows, and says with its size how far") {
  Tensor w = leaf({4, 8});
  const std::size_t before = in_use();
  {
    const Tape tape;
    for (int i = 0; i < 100; ++i) {
      sigmoid(w);
    }
    CHECK(tape.size() == 100);
    CHECK(in_use() > before);
  }
  CHECK(in_use() == before);
}

TEST_CASE("what was recorded is freed as backward walks, and all of it at its end") {
  Tensor x = leaf({1000});
  std::size_t after_forward = 0;
  std::size_t near_the_end = 0;
  std::size_t after_backward = 0;
  const std::size_t before = in_use();
  {
    Tape tape;
    Tensor y = detached(x) * 1.0;
    record("bottom", {x}, y, [&](Backward& b) {  // the last to be walked
      near_the_end = in_use();
      b.give(0, b.grad());
    });
    for (int i = 0; i < 50; ++i) {
      y = sigmoid(y);
    }
    const Tensor loss = sum(y);
    y = {};
    after_forward = in_use();
    reset_peak(Device::cpu());
    tape.backward(loss);
    after_backward = in_use();
    CHECK(tape.size() == 0);
  }
  CHECK(after_forward - before >= 50 * 8000);
  CHECK(near_the_end - before <= 5 * 8192);
  // The gradient of x stays, and the loss.
  CHECK(after_backward - before <= 2 * 8192);
  // At no time did the walk need more than a few gradients on top.
  CHECK(pool_stats(Device::cpu()).peak_in_use - after_forward <= 4 * 8192);
}

TEST_CASE("behind a product, an activation's gradient takes the place of the one that came in") {
  const std::int64_t rows = 256, columns = 512;
  const Tensor w = leaf({columns, 1});
  const Tensor x = tensor({rows, 1}, 1.0, 2);
  for (const math::AnyActivation& act :
       {math::AnyActivation{math::GELU{}}, math::AnyActivation{math::ReLU{}}}) {
    Tape tape;
    const Tensor y = linear_activation(x, w, {}, act) * 2.0;
    const Tensor ones = Tensor::full(y.shape(), 1.0, y.dtype());
    const std::size_t before = in_use();
    reset_peak(Device::cpu());
    tape.backward(y, ones);
    const auto more = static_cast<double>(pool_stats(Device::cpu()).peak_in_use - before);
    CHECK(more < 1.5 * static_cast<double>(rows * columns * 8));
  }
}

TEST_CASE("a gradient that others have too is left as it is") {
  const Tensor w = leaf({4, 8});
  const Tensor ones = Tensor::full({4, 8}, 1.0, w.dtype());
  const Tensor weight = tensor({8, 8}, 1.0, 3);
  const auto dense = [&weight](const Tensor& z, const math::AnyActivation& act) {
    return linear_activation(z, weight, {}, act);
  };
  {
    Tape tape;
    tape.backward(dense(w * 1.0, math::GELU{}), ones);
    CHECK(doubles(ones) == std::vector<double>(32, 1.0));
  }
  // Both activations are handed the same tensor by the sum.
  const auto gradient_of = [&](auto f) {
    Tensor at = leaf({4, 8});
    Tape tape;
    tape.backward(f(at * 1.0), ones);
    return doubles(at.grad());
  };
  const auto relu = gradient_of([&](const Tensor& z) { return dense(z, math::ReLU{}); });
  const auto gelu = gradient_of([&](const Tensor& z) { return dense(z, math::GELU{}); });
  const auto both =
      gradient_of([&](const Tensor& z) { return dense(z, math::ReLU{}) + dense(z, math::GELU{}); });
  for (std::size_t i = 0; i < both.size(); ++i) {
    CHECK(both[i] == doctest::Approx(relu[i] + gelu[i]).epsilon(1e-12));
  }
}

TEST_CASE("a chain of 20,000 functions does not overflow the stack") {
  Tensor x = leaf_of({1.0});
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 20'000; ++i) {
    y = y + x * 1e-4;
  }
  CHECK(tape.size() == 40'000);
  tape.backward(y);
  CHECK(doubles(x.grad())[0] == doctest::Approx(3.0).epsilon(1e-9));
}

TEST_CASE("an unused chain of 20,000 functions is dropped without recursion") {
  Tensor x = leaf_of({1.0});
  const std::size_t before = in_use();
  {
    const Tape tape;
    Tensor y = x;
    for (int i = 0; i < 20'000; ++i) {
      y = y * x;
    }
  }
  CHECK(in_use() == before);
}

}  // namespace
}  // namespace sinter
