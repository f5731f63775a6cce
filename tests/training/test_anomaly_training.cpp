// DetectAnomaly around whole training runs.
#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "clouds.h"

namespace sinter {
namespace {

Sequential model_of(std::uint64_t seed) {
  manual_seed(seed);
  return Sequential{Linear{12, 16}, ReLU{.drop_p = 0.2}, Linear{16, 5}};
}

TEST_CASE("a Trainer inside the scope trains to the same bytes") {
  const TensorDataset data = clouds(60, 12, 5);
  const auto train = [&](bool watched) {
    std::optional<DetectAnomaly> anomaly;
    if (watched) {
      anomaly.emplace();
    }
    Sequential model = model_of(3);
    Adam optimizer{model.parameters(), {.lr = 0.01}};
    Trainer(model, CrossEntropyLoss{}, optimizer)
        .fit(data, {.epochs = 3, .batch_size = 16, .max_grad_norm = 1.0, .progress = false});
    return model.parameters()[0].value().detach().to_vector<float>();
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a rate that is too high is found in the op where it shows first") {
  const TensorDataset data = clouds(60, 12, 5);
  Sequential model = model_of(3);
  SGD optimizer{model.parameters(), {.lr = 3e38}};
  Trainer trainer(model, CrossEntropyLoss{}, optimizer);
  const DetectAnomaly anomaly;
  check_refused([&] { trainer.fit(data, {.batch_size = 16, .progress = false}); },
                {"DetectAnomaly", "float32", "op "});
}

TEST_CASE("mixed precision that does not overflow passes, and what overflows is reported") {
  const TensorDataset data = clouds(60, 12, 5);
  for (const double scale : {1024.0, 0x1p30}) {
    CAPTURE(scale);
    Sequential model = model_of(3);
    SGD optimizer{model.parameters(), {.lr = 0.01}};
    Trainer trainer(model, CrossEntropyLoss{}, optimizer);
    const FitOptions options{.batch_size = 16,
                             .autocast = DType::float16,
                             .scaler = {.init_scale = scale},
                             .progress = false};
    const DetectAnomaly anomaly;
    if (scale < 1e6) {
      CHECK(trainer.fit(data, options).size() == 1);
    } else {
      check_refused([&] { trainer.fit(data, options); }, {"in backward of", "float16"});
    }
  }
}

TEST_CASE("a step is not captured inside the scope") {
  set_fallback_policy(FallbackPolicy::silent);
  Sequential model = model_of(3);
  model.to(Device::fake());
  SGD optimizer{model.parameters(), {.lr = 0.01}};
  const CapturedStep step(model, CrossEntropyLoss{}, optimizer);
  CHECK(step.captures());
  {
    const DetectAnomaly anomaly;
    CHECK_FALSE(step.captures());
  }
  CHECK(step.captures());
  set_fallback_policy(FallbackPolicy::warn);
}

}  // namespace
}  // namespace sinter
