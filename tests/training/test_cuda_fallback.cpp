// A whole training run on a GPU tensor without CUDA kernels: through the fallback, it is the CPU's
// run bit for bit. Skipped aloud where there is no GPU.
#include <vector>

#include <doctest/doctest.h>

#include <sinter/kernels/dispatch.h>
#include <sinter/sinter.h>

using namespace sinter;

TEST_CASE("CUDA: a model trains through the fallback as on the CPU") {
  if (!is_available(Device::cuda())) {
    MESSAGE("SKIPPED (no CUDA device)");
    return;
  }
  set_fallback_policy(FallbackPolicy::silent);
  std::vector<std::vector<float>> weights;
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    manual_seed(2);
    Sequential model{Linear{12, 33}, GELU{.drop_p = 0.2}, Linear{33, 17}, ReLU6{.drop_p = 0.1},
                     Linear{17, 3}};
    model.to(device);
    Adam optimizer{model.parameters(), {.lr = 0.01}};
    std::vector<float> x(64 * 12);
    std::vector<std::int64_t> y(64);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i * 7919 % 1009) / 500.0f - 1.0f;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = static_cast<std::int64_t>(i % 3);
    }
    const TensorDataset data(Tensor::from(x, {64, 12}), Tensor::from(y, {64}));
    Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
        data, {.epochs = 5, .batch_size = 10, .progress = false});
    std::vector<float> all;
    for (const NamedParameter& parameter : model.parameters()) {
      CHECK(parameter.value().device() == device);
      const auto values = parameter.value().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    weights.push_back(all);
  }
  set_fallback_policy(FallbackPolicy::warn);
  CHECK(weights[0] == weights[1]);
}
