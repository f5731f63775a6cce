// What the tape keeps of a forward pass on the GPU, read off the pool: nothing beside its output
// for an activation whose derivative is taken from the output, its input for the others, and never
// a mask.
#include <memory>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

using namespace testing;

std::size_t in_use() { return pool_stats(Device::cuda()).in_use; }

// The pool's block of one tensor of this kind.
std::size_t block(const Shape& shape, DType dtype) {
  const std::size_t before = in_use();
  const Tensor one = Tensor::empty(shape, dtype, Device::cuda());
  return in_use() - before;
}

TEST_CASE("CUDA: activation and dropout keep the output or the input, never a mask") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const Shape shape{1024, 257};
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const std::size_t one = block(shape, dtype);
    REQUIRE(one >= static_cast<std::size_t>(shape.numel()) * size_of(dtype));
    for (const double p : {0.0, 0.1}) {
      math::for_each_activation([&]<class A>() {
        INFO(A::name, " in ", dtype, ", p = ", p);
        Tensor x = Tensor::full(shape, 0.75, dtype, Device::cuda());
        x.set_requires_grad();
        const auto generator = std::make_shared<Generator>(7);
        const std::size_t before = in_use();
        {
          Tape tape;
          Tensor h = x * 1.0;  // whose handle goes: only the tape keeps it, if it does
          Tensor y = activation(h, A{}, {.p = p, .generator = generator});
          h = {};
          const std::size_t kept = math::derives_from_input<A> ? 2 : 1;
          CHECK(in_use() - before == kept * one);
          // A y that nobody holds any more stays for those alone that need it.
          const Tensor gradient = Tensor::full(shape, 1, dtype, Device::cuda());
          y = y * 1.0;
          CHECK(in_use() - before == 3 * one);
          tape.backward(y, gradient);
          CHECK(x.grad().shape() == shape);
        }
        x.clear_grad();
      });
    }
  }
}

TEST_CASE("CUDA: dropout alone keeps nothing") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const Shape shape{1024, 257};
  const std::size_t one = block(shape, DType::float32);
  Tensor x = Tensor::full(shape, 0.75, DType::float32, Device::cuda());
  x.set_requires_grad();
  const auto generator = std::make_shared<Generator>(7);
  const std::size_t before = in_use();
  Tape tape;
  Tensor h = x * 1.0;
  Tensor y = dropout(h, {.p = 0.5, .generator = generator});
  h = {};
  CHECK(in_use() - before == one);
  y = {};
  CHECK(in_use() - before == 0);
}

TEST_CASE("CUDA: a linear with activation and dropout keeps its input and one more tensor") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const Shape shape{512, 256};
  const std::size_t one = block(shape, DType::float32);
  Tensor weight = tensor({256, 256}, 0.1, 1, DType::float32).to(Device::cuda());
  Tensor bias = tensor({256}, 0.1, 2, DType::float32).to(Device::cuda());
  weight.set_requires_grad();
  bias.set_requires_grad();
  const Tensor x = tensor(shape, 1, 3, DType::float32).to(Device::cuda());
  const auto generator = std::make_shared<Generator>(7);
  { linear(x, weight, bias); }  // what a first product sets up for all later ones
  const auto kept = [&](const math::AnyActivation& act) {
    const std::size_t before = in_use();
    Tape tape;
    Tensor y = linear_activation(x, weight, bias, act, {.p = 0.1, .generator = generator});
    return in_use() - before;
  };
  CHECK(kept(math::ReLU{}) == one);
  CHECK(kept(math::Tanh{}) == one);
  CHECK(kept(math::GELU{}) == 2 * one);
}

}  // namespace
}  // namespace sinter
