// A recipe as sinter's model and optimizer.
#pragma once

#include <memory>

#include "recipe.h"
#include <sinter/layers/sequential.h>
#include <sinter/training/optimizers.h>

namespace bench {

sinter::Sequential make_model(const Recipe& recipe);
std::unique_ptr<sinter::Optimizer> make_optimizer(const Recipe& recipe, sinter::Sequential& model);

}  // namespace bench
