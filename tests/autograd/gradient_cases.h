// The table of gradient checks: for every differentiable function, the ways of calling it that
// test_gradients.cpp compares with finite differences.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter::testing {

using Inputs = std::span<const Tensor>;

struct GradientCase {
  /// The function as autograd/functions.h declares it, "matmul(Tensor, Tensor, bool, bool)".
  std::string function;
  /// What is special about this call.
  std::string name;
  std::function<Tensor(Inputs)> f;
  std::vector<Tensor> inputs;
};
using GradientCases = std::vector<GradientCase>;

// One for each file of cases.
GradientCases activation_cases();
GradientCases matrix_cases();
GradientCases arithmetic_cases();
GradientCases loss_cases();
GradientCases row_cases();
GradientCases sequence_cases();
GradientCases image_cases();
GradientCases batch_norm_cases();

}  // namespace sinter::testing
