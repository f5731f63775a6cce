// The op table as a whole.

#include <set>
#include <string>

#include <doctest/doctest.h>

#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

TEST_CASE("every op has a name of its own and a CPU kernel, which is the reference") {
  std::set<std::string> names;
  for (const ops::OpInfo& op : ops::table()) {
    CAPTURE(op.name);
    CHECK(op.cpu);
    CHECK(names.insert(op.name).second);
  }
  for (const char* name : {"activation_forward",
                           "activation_backward",
                           "dropout",
                           "cast",
                           "add",
                           "subtract",
                           "multiply",
                           "divide",
                           "affine",
                           "accumulate",
                           "sum_to",
                           "matmul",
                           "linear_forward",
                           "linear_backward_input",
                           "weight_gradients",
                           "linears_sgd_update",
                           "linears_adam_update",
                           "cross_entropy",
                           "linear_cross_entropy",
                           "nll_loss",
                           "pointwise_loss",
                           "softmax",
                           "softmax_backward",
                           "norm_forward",
                           "norm_backward",
                           "glu_forward",
                           "glu_backward",
                           "batch_norm_statistics",
                           "batch_norm_forward",
                           "batch_norm_backward_sums",
                           "batch_norm_backward",
                           "attention_forward",
                           "attention_backward",
                           "conv2d_forward",
                           "conv2d_backward_input",
                           "conv2d_backward_weight",
                           "avg_pool2d_forward",
                           "avg_pool2d_backward",
                           "max_pool2d_forward",
                           "max_pool2d_backward",
                           "argmax",
                           "gather_normalise",
                           "gather_rows",
                           "embedding_forward",
                           "embedding_backward",
                           "stack",
                           "sgd_update",
                           "adam_update",
                           "rule_update",
                           "clip_norm",
                           "clip_value",
                           "scale_update"}) {
    CAPTURE(name);
    CHECK(names.contains(name));
  }
}

TEST_CASE("the table says of an op what the op says of itself") {
  const auto row = [](const char* name) {
    for (const ops::OpInfo& op : ops::table()) {
      if (std::string(op.name) == name) {
        return op;
      }
    }
    return ops::OpInfo{};
  };
  const auto same = [&row](const auto& op) {
    CAPTURE(op.name);
    CHECK(row(op.name).cpu == (op.cpu != nullptr));
    CHECK(row(op.name).cuda == (op.cuda != nullptr));
  };
  CHECK(row("matmul").is_product);
  CHECK(row("linear_cross_entropy").is_product);
  CHECK_FALSE(row("embedding_backward").is_product);
  same(ops::activation_forward);
  same(ops::activation_backward);
  same(ops::add);
  same(ops::matmul);
  same(ops::linear_forward);
  same(ops::linear_backward_input);
  same(ops::weight_gradients);
  same(ops::cross_entropy);
  same(ops::attention_forward);
  same(ops::embedding_backward);
  same(ops::linear_cross_entropy);
  same(ops::sgd_update);
  same(ops::adam_update);
}

}  // namespace
}  // namespace sinter
