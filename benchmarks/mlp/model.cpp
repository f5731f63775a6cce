#include "model.h"

#include <cstddef>
#include <string>

#include <sinter/runtime/error.h>

namespace bench {

using namespace sinter;

Sequential make_model(const Recipe& recipe) {
  std::string layers = "flatten";
  for (std::size_t i = 0; i + 1 < recipe.sizes.size(); ++i) {
    layers += text(" -> linear(", recipe.sizes[i], ",", recipe.sizes[i + 1], ")");
    if (i + 2 < recipe.sizes.size()) {
      layers += text(" -> ", recipe.activation, "(drop_p=", recipe.drop, ")");
    }
  }
  return Sequential::parse(layers);
}

std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe, Sequential& model) {
  if (recipe.optimizer == "adam") {
    return std::make_unique<Adam>(model.parameters(), AdamOptions{.lr = recipe.lr});
  }
  return std::make_unique<SGD>(model.parameters(),
                               SGDOptions{.lr = recipe.lr, .momentum = recipe.momentum});
}

}  // namespace bench
