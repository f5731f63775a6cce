#include "checks.h"

#include <sinter/kernels/math/activations.h>
#include <sinter/runtime/error.h>

namespace golden {
namespace {

struct Row {
  std::string_view op;
  Check check;
};

#define SINTER_GOLDEN_ROW(Type, function) {#function, check_activation},
constexpr Row rows[] = {
    SINTER_ACTIVATIONS(SINTER_GOLDEN_ROW)  //
    {"Linear", check_linear},
    {"Flatten", check_flatten},
    {"CrossEntropyLoss", check_cross_entropy},
    {"MSELoss", check_mse},
    {"SGD", check_optimizer},
    {"Adam", check_optimizer},
    {"AdamW", check_optimizer},
    {"train", check_training},
};
#undef SINTER_GOLDEN_ROW

}  // namespace

Check find_check(std::string_view op) {
  for (const Row& row : rows) {
    if (row.op == op) {
      return row.check;
    }
  }
  return nullptr;
}

sinter::Tensor load(const Case& c, const std::string& name, const Setup& setup) {
  const sinter::Tensor& tensor = c.tensor(name);
  const bool floating = sinter::is_floating(tensor.dtype());
  return (floating ? tensor.to(setup.dtype) : tensor).to(setup.device);
}

void load_parameters(sinter::Module& module, const Case& c, const std::string& prefix,
                     const Setup& setup) {
  module.to(setup.dtype);
  module.to(setup.device);
  for (const sinter::NamedParameter& parameter : module.parameters()) {
    sinter::Tensor value = parameter.value();
    value.copy_from(load(c, prefix + parameter.name, setup));
  }
}

}  // namespace golden
