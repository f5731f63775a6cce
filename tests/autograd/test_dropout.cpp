// Dropout as a function: which elements, which scale, and when a generator moves on.
#include <cmath>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

std::shared_ptr<Generator> generator(std::uint64_t seed = 1) {
  return std::make_shared<Generator>(seed);
}

Tensor ones(std::int64_t n, DType dtype = DType::float64) { return Tensor::full({n}, 1.0, dtype); }

TEST_CASE("kept elements are scaled, dropped ones are exactly 0") {
  // p = 0.1 is the threshold 6554 of 65536, whose scale is 65536 / 58982.
  const double scale = 65536.0 / 58982.0;
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  // The mask of (seed 42, call 1, step 1000) around element 0, by the known answers' definition.
  const auto g = generator(42);
  g->set_state(1000, 1);
  const Numbers mask = doubles(dropout(ones(1000), {0.1, g}));
  g->set_state(1000, 1);
  const Numbers bad = doubles(dropout(Tensor::full({1000}, nan, DType::float64), {0.1, g}));
  g->set_state(1000, 1);
  const Numbers endless =
      doubles(relu(Tensor::full({1000}, infinity, DType::float64), {}, {0.1, g}));
  int dropped = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const bool keep = math::dropout_mask(0.1, 42, 1, 1000).keep(i);
    dropped += keep ? 0 : 1;
    CHECK(mask[i] == (keep ? scale : 0));
    CHECK((keep ? std::isnan(bad[i]) : bad[i] == 0));
    CHECK(endless[i] == (keep ? infinity : 0));
  }
  CHECK(dropped > 60);
  CHECK(dropped < 140);
}

TEST_CASE("the first lanes of the known answers") {
  // Seed 0, call 0, step 0: lanes e8d5 and 6627; thresholds around the second.
  const double just_above = 0x6628 / 65536.0;
  const double exactly = 0x6627 / 65536.0;
  const Numbers above = doubles(dropout(ones(8), {just_above, generator(0)}));
  const Numbers at = doubles(dropout(ones(8), {exactly, generator(0)}));
  CHECK(above[0] > 0);
  CHECK(above[1] == 0);
  CHECK(at[0] > 0);
  CHECK(at[1] > 0);
}

TEST_CASE("p = 0 is the identity and draws nothing") {
  const auto g = generator();
  const Tensor x = tensor({10});
  CHECK(dropout(x, {0.0, g}).address() == x.address());
  CHECK(dropout(x, {}).address() == x.address());            // needs no generator
  CHECK(dropout(x, {0x1p-18, g}).address() == x.address());  // rounds to 0 of 65536
  CHECK(same(gelu(x, {}, {0.0, g}), gelu(x)));
  CHECK(g->next_call() == 0);
}

TEST_CASE("p = 1 gives zeros and zero gradients, whatever comes in") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double p : {1.0, 1 - 0x1p-18}) {
    Tensor x = leaf_of({1.0, infinity, std::nan("")});
    Tape tape;
    const Tensor y = dropout(x, {p, generator()});
    CHECK(doubles(y) == Numbers{0, 0, 0});
    tape.backward(y, Tensor::from({1.0, infinity, 1.0}, {3}));
    CHECK(doubles(x.grad()) == Numbers{0, 0, 0});
    Tensor w = leaf_of({1.0, infinity, std::nan("")});
    Tape second;
    const Tensor z = silu(w, {}, {p, generator()});
    CHECK(doubles(z) == Numbers{0, 0, 0});
    second.backward(z, Tensor::from({1.0, infinity, 1.0}, {3}));
    CHECK(doubles(w.grad()) == Numbers{0, 0, 0});
  }
}

TEST_CASE("backward draws the mask of its own forward") {
  Tensor x = Tensor::full({300}, 2.0, DType::float64).set_requires_grad();
  const auto g = generator();
  Tape tape;
  const Tensor first = dropout(x, {0.5, g});
  const Tensor second = dropout(x, {0.5, g});
  const Numbers a = doubles(first);
  const Numbers b = doubles(second);
  CHECK(a != b);
  tape.backward(sum(first) + sum(second) * 10.0);
  const Numbers gradient = doubles(x.grad());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    CHECK(gradient[i] == a[i] / 2 + 10 * b[i] / 2);
  }
}

TEST_CASE("the step advances once for each backward, and masks differ between calls and steps") {
  Tensor x = ones(500).set_requires_grad();
  const auto g = generator();
  std::vector<Numbers> masks;
  for (std::uint32_t step = 0; step < 3; ++step) {
    CHECK(g->step() == step);
    CHECK(g->next_call() == 0);
    Tape tape;
    const Tensor y = dropout(x, {0.5, g});
    const Tensor z = relu(x, {}, {0.5, g});
    const Tensor w =
        linear_activation(x.reshape({1, 500}), Tensor::full({2, 500}, 1.0, DType::float64), {},
                          math::Tanh{}, {0.5, g});
    CHECK(g->next_call() == 3);
    masks.push_back(doubles(y));
    masks.push_back(doubles(z));
    tape.backward(sum(y) + sum(z) + sum(w));
  }
  CHECK(g->step() == 3);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(masks[i] != masks[j]);
    }
  }
  const auto replay = generator();
  replay->set_state(1, 1);
  CHECK(doubles(dropout(ones(500), {0.5, replay})) == masks[3]);
}

TEST_CASE(
    "the step advances with neither a dropped tape nor a failed backward, and for each "
    "generator used") {
  Tensor x = ones(8).set_requires_grad();
  const auto g = generator(1);
  const auto other = generator(2);
  const auto idle = generator(3);
  {
    const Tape tape;
    dropout(x, {0.5, g});
  }
  CHECK(g->step() == 0);
  CHECK(g->next_call() == 1);
  dropout(x, {0.5, g});  // no tape at all
  CHECK(g->step() == 0);
  Tape tape;
  const Tensor y = dropout(dropout(x, {0.5, g}), {0.5, other});
  dropout(x, {0.0, idle});
  check_error([&] { tape.backward(y); }, {"one element"});
  CHECK(g->step() == 0);
  tape.backward(sum(y));
  CHECK(g->step() == 1);
  CHECK(other->step() == 1);
  CHECK(idle->step() == 0);
  CHECK(g->next_call() == 0);
}

TEST_CASE("the mask depends on neither type, shape nor device") {
  const QuietFallback quiet;
  const Numbers expected = doubles(dropout(ones(1001), {0.25, generator(9)}));
  const auto zeros_of = [](const Numbers& values) {
    Numbers out;
    for (const double value : values) {
      out.push_back(value == 0);
    }
    return out;
  };
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    CHECK(zeros_of(doubles(dropout(ones(1001, dtype), {0.25, generator(9)}))) ==
          zeros_of(expected));
  }
  CHECK(doubles(dropout(ones(1001).reshape({7, 11, 13}), {0.25, generator(9)})) == expected);
  CHECK(doubles(dropout(ones(1001).to(Device::fake()), {0.25, generator(9)})) == expected);
}

TEST_CASE("wrong probabilities and a missing generator are errors") {
  const Tensor x = ones(3);
  for (const double p : {-0.1, 1.0001, std::nan(""), -std::numeric_limits<double>::infinity()}) {
    check_error([&] { dropout(x, {p, generator()}); }, {"dropout", "[0, 1]"});
    check_error([&] { relu(x, {}, {p, generator()}); }, {"activation", "[0, 1]"});
    check_error(
        [&] {
          linear_activation(x, tensor({2, 3}), {}, math::ReLU{}, {p, generator()});
        },
        {"linear", "[0, 1]"});
  }
  check_error([&] { dropout(x, {.p = 0.5}); }, {"dropout", "generator"});
  check_error([&] { relu(x, {}, {.p = 0.5}); }, {"generator"});
  check_error(
      [&] {
        dropout(Tensor::zeros({3}, DType::int64), {0.5, generator()});
      },
      {"dropout", "int64"});
}

}  // namespace
}  // namespace sinter
