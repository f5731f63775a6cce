// One storage, several handles: no way to write in place, copy or hand over may lose a gradient
// without a word.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "values.h"
#include <sinter/sinter.h>

using namespace sinter;
using namespace sinter::testing;

namespace {

std::vector<double> gradient(const Tensor& x) { return x.grad().to_vector<double>(); }

}  // namespace

TEST_CASE("a handle that no tape knew is stale once another one was written through") {
  const Tensor w = leaf_of({1, 2});
  Tape tape;
  Tensor buffer = Tensor::zeros({2}, DType::float64);
  Tensor alias = buffer;
  alias += w;
  CHECK(contains(error_of([&] { sum(buffer * buffer); }), "use the handle that was written to"));
  tape.backward(sum(alias * alias) + sum(w));
  CHECK(gradient(w) == std::vector<double>{3, 5});  // 2 w + 1
}

TEST_CASE("so is the whole after a write through a part of it") {
  const Tensor w = leaf_of({1, 2});
  Tape tape;
  Tensor buffer = Tensor::zeros({2}, DType::float64);
  Tensor part = buffer.view_rows(0, 1);
  part += rows(w, 0, 1);
  CHECK(contains(error_of([&] { sum(buffer); }), "use the handle that was written to"));
}

TEST_CASE("a leaf cannot be changed through its rows unnoticed") {
  const Tensor w = leaf_of({1, 2});
  Tape tape;
  Tensor part = rows(w, 0, 1);
  part *= 10.0;
  CHECK(contains(error_of([&] { sum(w); }), "use the handle that was written to"));
}

TEST_CASE("the next tape may use what an earlier one wrote to") {
  const Tensor w = leaf_of({1, 2});
  Tensor buffer = Tensor::zeros({2}, DType::float64);
  {
    Tape tape;
    Tensor alias = buffer;
    alias += w;
  }
  Tape tape;
  tape.backward(sum(buffer * w));
  CHECK(gradient(w) == std::vector<double>{1, 2});
}

TEST_CASE("copies of recorded values are refused, and allowed once detached") {
  const Tensor w = leaf_of({1, 2});
  Tape tape;
  const Tensor h = w * 2.0;
  Tensor copy = Tensor::zeros({2}, DType::float64);
  CHECK(contains(error_of([&] { h.clone(); }), "detach() it first"));
  CHECK(contains(error_of([&] { w.clone(); }), "detach() it first"));
  CHECK(contains(error_of([&] { copy.copy_from(h); }), "detach() it first"));
  copy.copy_from(h.detach());
  CHECK(copy.to_vector<double>() == std::vector<double>{2, 4});
  CHECK(h.detach().clone().to_vector<double>() == std::vector<double>{2, 4});
}

TEST_CASE("mse_loss gives its target a gradient too") {
  const Tensor w = leaf_of({1.5, 1.5});
  Tape tape;
  tape.backward(mse_loss(w * 2.0, w, {.reduction = Reduction::sum}));
  // (2w - w)^2 = w^2 has the derivative 2 w.
  CHECK(gradient(w) == std::vector<double>{3, 3});
}

TEST_CASE("a gradient of another type is refused with the function's name") {
  Tensor x = Tensor::full({3}, 0.5);
  x.set_requires_grad();
  Tape tape;
  Tensor h = tanh(x);
  Tensor y = h.detach().clone();
  record("odd", {h}, y, [](Backward& b) { b.give(0, Tensor::full({3}, 1.0, DType::float64)); });
  const std::string message = error_of([&] { tape.backward(sum(h) + sum(y)); });
  CHECK(contains(message, "odd: its backward gave a gradient of float64"));
  CHECK(contains(message, "float32"));
}

TEST_CASE("what only an unwanted gradient needs may change after the forward pass") {
  const Tensor w = leaf_of({1, 2});
  Tape tape;
  Tensor constant = Tensor::full({2}, 3.0, DType::float64);
  Tensor y = w * constant;
  Tensor z = w * 2.0;
  const Tensor product = z * constant;
  z += 1.0;  // product's backward wants the constant alone
  tape.backward(sum(y) + sum(product));
  CHECK(gradient(w) == std::vector<double>{9, 9});
}

TEST_CASE("a detached handle is numbers, whoever writes to them") {
  const Tensor w = leaf_of({1, 2});
  Tape tape;
  Tensor y = w * 2.0;
  y += 1.0;
  CHECK(sum(y.detach() * 2.0).item() == 16);
  tape.backward(sum(y * y.detach()));
  CHECK(gradient(w) == std::vector<double>{6, 10});  // 2 (2 w + 1), the factor taken as constant
}

TEST_CASE("the mean of a 16-bit tensor does not overflow where its sum does") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Tensor x = Tensor::full({100000}, 2.0, dtype);
    x.set_requires_grad();
    Tape tape;
    const Tensor y = mean(x);
    CHECK(y.dtype() == dtype);
    CHECK(y.item() == 2.0);
    tape.backward(y);
    CHECK(x.grad().detach().to(DType::float32).to_vector<float>()[99999] ==
          doctest::Approx(1e-5).epsilon(1e-2));
  }
}

TEST_CASE("a parameter that changed its type between forward and backward is refused") {
  Sequential model{Linear{3, 30}, ReLU{}, Linear{30, 2}};
  model.to(DType::float64);
  Tape tape;
  const Tensor loss = sum(model(Tensor::full({4, 3}, 1.0, DType::float64)));
  model.to(DType::float32);
  const std::string message = error_of([&] { tape.backward(loss); });
  CHECK(contains(message, "was float64 on cpu in the forward pass and is float32 on cpu now"));
}

TEST_CASE("a tape may end on another thread") {
  auto tape = std::make_unique<Tape>();
  std::thread([&tape] { tape.reset(); }).join();
  CHECK(Tape::current() == nullptr);
  CHECK(sum(leaf_of({1, 2})).item() == 3);
  const Tape next;
  CHECK(Tape::current() == &next);
}

TEST_CASE("a recording used wrongly is a sentence") {
  const Tensor w = leaf_of({1, 2});
  Tensor y = Tensor::zeros({2}, DType::float64);
  Recording off("own", {w});
  CHECK_FALSE(static_cast<bool>(off));
  CHECK(contains(error_of([&] { off.finish(y, [](Backward&) {}); }), "the recording is off"));
  Tape tape;
  Recording on("own", {w});
  Tensor undefined;
  CHECK(contains(error_of([&] { on.finish(undefined, [](Backward&) {}); }), "undefined"));
  CHECK(contains(error_of([&] { on.finish(y, nullptr); }),
                 "own: recorded without a backward function"));
  on.finish(y, [](Backward& b) {
    b.write(0, {2}, [](Tensor& g, bool) { g = Tensor::zeros({2}, DType::float64); });
  });
  CHECK(contains(error_of([&] { on.finish(y, [](Backward&) {}); }), "has ended"));
  CHECK(
      contains(error_of([&] { tape.backward(sum(y)); }), "own: its backward replaced the tensor"));
}

TEST_CASE("a tape that ends inside a NoTape leaves nothing behind") {
  auto tape = std::make_unique<Tape>();
  {
    const NoTape suspended;
    tape.reset();
    CHECK(Tape::current() == nullptr);
  }
  CHECK(Tape::current() == nullptr);
  CHECK(sum(leaf_of({1, 2})).item() == 3);
}
