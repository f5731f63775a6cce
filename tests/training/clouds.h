// What the tests of captured steps train on, and a small model with dropout for it.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <sinter/sinter.h>

namespace sinter {

/// Points of `classes` clouds in `features` dimensions, by a formula.
inline TensorDataset clouds(std::int64_t n, std::int64_t features, std::int64_t classes) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t label = (i * 7 + i / 3) % classes;
    for (std::int64_t j = 0; j < features; ++j) {
      const double noise = std::sin(12.9898 * static_cast<double>(i * features + j + 1));
      x.push_back(static_cast<float>(0.4 * noise + std::cos(static_cast<double>((j + 1) * label))));
    }
    y.push_back(label);
  }
  return {Tensor::from(x, {n, features}), Tensor::from(y, {n})};
}

/// Of 12 features and 5 classes, on the GPU.
inline Sequential small_model() {
  manual_seed(3);
  Sequential model{Linear{12, 33}, GELU{.drop_p = 0.2f}, Linear{33, 20}, ReLU{.drop_p = 0.1f},
                   Linear{20, 5}};
  model.to(Device::cuda());
  return model;
}

}  // namespace sinter
