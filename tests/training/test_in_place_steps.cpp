// What an optimizer writes between a forward pass and its backward.
#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "clouds.h"

namespace sinter {
namespace {

TEST_CASE("a step between forward and backward is an error that names the function") {
  manual_seed(3);
  Sequential model{Linear{4, 8}, Sigmoid{}, Linear{8, 3}};
  SGD optimizer{model.parameters(), {.lr = 0.1}};
  const Batch batch = clouds(6, 4, 3).batch(std::vector<std::int64_t>{0, 1, 2, 3});
  const auto loss = [&] { return cross_entropy(model(batch.inputs), batch.targets); };
  {
    Tape tape;
    tape.backward(loss());
  }
  Tape tape;
  const Tensor second = loss();
  const auto before = model.parameters()[0].value().detach().to_vector<float>();
  optimizer.step();
  CHECK(model.parameters()[0].value().detach().to_vector<float>() != before);
  check_refused([&] { tape.backward(second); }, {"linear", "[3, 8]", "optimizer step"});
  for (const NamedParameter& parameter : model.parameters()) {
    CHECK_FALSE(has_gradient(parameter));
  }
  // And the loop goes on.
  Tape third;
  third.backward(loss());
  optimizer.step();
}

}  // namespace
}  // namespace sinter
