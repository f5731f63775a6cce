// All parameters of a model as one list, to compare models by.
#pragma once

#include <vector>

#include <sinter/layers/module.h>

namespace sinter {

inline std::vector<float> weights(Module& model) {
  std::vector<float> out;
  for (const NamedParameter& parameter : model.parameters()) {
    const auto values = parameter.value().to_vector<float>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

}  // namespace sinter
