// The table of a model.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/sequential.h>
#include <sinter/layers/table.h>

namespace sinter {
namespace {

using namespace testing;

TEST_CASE("shapes, parameters and bytes of a model") {
  Sequential model{Flatten{}, Linear{784, 256}, ReLU{.drop_p = 0.1}, Linear{256, 10}};
  // 784 * 256 + 256 = 200960 and 256 * 10 + 10 = 2570.
  CHECK(model.summary({64, 1, 28, 28}) ==
        "name  layer                            output     parameters  bytes\n"
        "   0  flatten                          [64, 784]           0       0\n"
        "   1  linear(784, 256)                 [64, 256]      200960  803840\n"
        "   2  relu(drop_p=0.1)                 [64, 256]           0       0\n"
        "   4  linear(256, 10)                  [64, 10]         2570   10280\n"
        "      total for input [64, 1, 28, 28]  [64, 10]       203530  814120\n");
  model.to(DType::float64);
  CHECK(contains(model.summary({1, 784}), "1628240"));
}

TEST_CASE("a nest shows its parts, each with its own parameters") {
  Sequential model;
  model.add(Linear{3, 4, {.bias = false}}).add(Sequential{Tanh{}, Linear{4, 2}});
  CHECK(model.summary({5, 3}) ==
        "name  layer                     output  parameters  bytes\n"
        "   0  linear(3, 4, bias=false)  [5, 4]          12     48\n"
        "   1  tanh -> linear(4, 2)      [5, 2]           0      0\n"
        " 1.0  tanh                      [5, 4]           0      0\n"
        " 1.1  linear(4, 2)              [5, 2]          10     40\n"
        "      total for input [5, 3]    [5, 2]          22     88\n");
}

TEST_CASE("a summary leaves no trace") {
  Sequential model{Linear{8, 8}, ReLU{.drop_p = 0.5}};
  Tape tape;
  model.summary({3, 8});
  CHECK(tape.size() == 0);
  CHECK(model.training());
  CHECK(model.generator()->next_call() == 0);
  CHECK(detail::call_observer() == nullptr);
  check_error([&] { model.summary({3, 9}); }, {"layer 0", "[3, 9]"});
  CHECK(detail::call_observer() == nullptr);
  CHECK(model(Tensor::zeros({3, 8})).slot().tape != 0);  // records and fuses again
  CHECK(tape.size() == 1);
}

TEST_CASE("a summary of a model on another device, and of one without parameters") {
  const QuietFallback quiet;
  Sequential model{Linear{3, 4}, GELU{}};
  model.to(Device::fake());
  CHECK(contains(model.summary({2, 3}), "linear(3, 4)"));
  Sequential bare{Flatten{}, ReLU{}};
  CHECK(contains(bare.summary({2, 3, 4}), "[2, 12]"));
  CHECK(contains(bare.summary({0, 3, 4}), "[0, 12]"));
}

TEST_CASE("a table aligns numbers to the right and words to the left") {
  Table table({"word", "n"});
  table.row({"a", "1"});
  table.row({"longer", "1,000"});
  table.row({"", ""});
  CHECK(table.str() == "word    n\na           1\nlonger  1,000\n\n");
}

}  // namespace
}  // namespace sinter
