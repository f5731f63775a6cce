#include "checks.h"

#include <sinter/kernels/math/activations.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/losses.h>
#include <sinter/layers/pooling.h>
#include <sinter/layers/softmax.h>
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
    {"LayerNorm", check_layer_norm},
    {"RMSNorm", check_rms_norm},
    {"BatchNorm1d", check_batch_norm<sinter::BatchNorm1d>},
    {"BatchNorm2d", check_batch_norm<sinter::BatchNorm2d>},
    {"Softmax", check_softmax<sinter::Softmax>},
    {"LogSoftmax", check_softmax<sinter::LogSoftmax>},
    {"Softmin", check_softmax<sinter::Softmin>},
    {"GLU", check_glu},
    {"MultiheadAttention", check_attention},
    {"Conv1d", check_conv1d},
    {"Conv2d", check_conv2d},
    {"AvgPool1d", check_avg_pool1d},
    {"AvgPool2d", check_pool2d<sinter::AvgPool2d>},
    {"MaxPool2d", check_pool2d<sinter::MaxPool2d>},
    {"AdaptiveAvgPool2d", check_adaptive_avg_pool2d},
    {"CrossEntropyLoss", check_cross_entropy},
    {"NLLLoss", check_nll},
    {"L1Loss", check_pointwise_loss<sinter::L1Loss>},
    {"MSELoss", check_pointwise_loss<sinter::MSELoss>},
    {"HuberLoss", check_pointwise_loss<sinter::HuberLoss>},
    {"SmoothL1Loss", check_pointwise_loss<sinter::SmoothL1Loss>},
    {"BCEWithLogitsLoss", check_pointwise_loss<sinter::BCEWithLogitsLoss>},
    {"KLDivLoss", check_pointwise_loss<sinter::KLDivLoss>},
    {"SGD", check_optimizer},
    {"Adam", check_optimizer},
    {"AdamW", check_optimizer},
    {"RMSprop", check_optimizer},
    {"Adagrad", check_optimizer},
    {"NAdam", check_optimizer},
    {"RAdam", check_optimizer},
    {"clip_grad_norm", check_clip_grad_norm},
    {"StepLR", check_schedule},
    {"MultiStepLR", check_schedule},
    {"ExponentialLR", check_schedule},
    {"CosineAnnealingLR", check_schedule},
    {"LinearLR", check_schedule},
    {"OneCycleLR", check_schedule},
    {"PolynomialLR", check_schedule},
    {"CosineAnnealingWarmRestarts", check_schedule},
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
