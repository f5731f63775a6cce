// The model in a checkpoint comes from that file alone too.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "data_files.h"
#include <sinter/layers/model_file.h>
#include <sinter/training/checkpoint.h>
#include <sinter/training/optimizers.h>

namespace sinter {
namespace {

using namespace testing;

TEST_CASE("load_model takes a checkpoint, and none of what is beside the model") {
  const TempFolder folder;
  Sequential model{Linear{3, 4}, BatchNorm1d{4}, Tanh{}, Linear{4, 2}};
  Adam optimizer{model.parameters()};
  const Tensor x = tensor({6, 3}, 1.0, 1, DType::float32);
  {
    Tape tape;
    tape.backward(sum(model(x)));
  }
  optimizer.step();
  save_checkpoint(folder.path() / "c", model, {{"optimizer", &optimizer}});
  Sequential read = load_model(folder.path() / "c");
  model.eval();
  read.eval();
  CHECK(same(read(x), model(x)));
}

}  // namespace
}  // namespace sinter
