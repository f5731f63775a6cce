// One storage, several handles: no way to write in place, copy or hand over may lose a gradient
// without a word.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.h>

using namespace sinter;

namespace {

Tensor leaf(std::initializer_list<double> values) {
  Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  x.set_requires_grad();
  return x;
}

std::vector<double> gradient(const Tensor& x) { return x.grad().to_vector<double>(); }

template <class Body>
std::string sentence(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a handle that no tape knew is stale once another one was written through") {
  const Tensor w = leaf({1, 2});
  Tape tape;
  Tensor buffer = Tensor::zeros({2}, DType::float64);
  Tensor alias = buffer;
  alias += w;
  CHECK(has(sentence([&] { sum(buffer * buffer); }), "use the handle that was written to"));
  tape.backward(sum(alias * alias) + sum(w));
  CHECK(gradient(w) == std::vector<double>{3, 5});  // 2 w + 1
}

TEST_CASE("so is the whole after a write through a part of it") {
  const Tensor w = leaf({1, 2});
  Tape tape;
  Tensor buffer = Tensor::zeros({2}, DType::float64);
  Tensor part = buffer.view_rows(0, 1);
  part += rows(w, 0, 1);
  CHECK(has(sentence([&] { sum(buffer); }), "use the handle that was written to"));
}

TEST_CASE("a leaf cannot be changed through its rows unnoticed") {
  const Tensor w = leaf({1, 2});
  Tape tape;
  Tensor part = rows(w, 0, 1);
  part *= 10.0;
  CHECK(has(sentence([&] { sum(w); }), "use the handle that was written to"));
}

TEST_CASE("the next tape may use what an earlier one wrote to") {
  const Tensor w = leaf({1, 2});
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
  const Tensor w = leaf({1, 2});
  Tape tape;
  const Tensor h = w * 2.0;
  Tensor copy = Tensor::zeros({2}, DType::float64);
  CHECK(has(sentence([&] { h.clone(); }), "detach() it first"));
  CHECK(has(sentence([&] { w.clone(); }), "detach() it first"));
  CHECK(has(sentence([&] { copy.copy_from(h); }), "detach() it first"));
  copy.copy_from(h.detach());
  CHECK(copy.to_vector<double>() == std::vector<double>{2, 4});
  CHECK(h.detach().clone().to_vector<double>() == std::vector<double>{2, 4});
}

TEST_CASE("mse_loss gives its target a gradient too") {
  const Tensor w = leaf({1.5, 1.5});
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
  const std::string message = sentence([&] { tape.backward(sum(h) + sum(y)); });
  CHECK(has(message, "odd: its backward gave a gradient of float64"));
  CHECK(has(message, "float32"));
}

TEST_CASE("what only an unwanted gradient needs may change after the forward pass") {
  const Tensor w = leaf({1, 2});
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
  const Tensor w = leaf({1, 2});
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

TEST_CASE("a tape that ends inside a NoTape leaves nothing behind") {
  auto tape = std::make_unique<Tape>();
  {
    const NoTape suspended;
    tape.reset();
    CHECK(Tape::current() == nullptr);
  }
  CHECK(Tape::current() == nullptr);
  CHECK(sum(leaf({1, 2})).item() == 3);
}
