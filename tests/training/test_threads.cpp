// Models in several threads of one process: each trains as if it were alone, and one serves all.
// ThreadSanitizer runs these (preset tsan).
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "clouds.h"

namespace sinter {
namespace {

constexpr int threads = 4;

// Puts back what num_threads() was.
struct TwoThreads {
  int before = num_threads();
  TwoThreads() { set_num_threads(2); }
  ~TwoThreads() { set_num_threads(before); }
  TwoThreads(const TwoThreads&) = delete;
  TwoThreads& operator=(const TwoThreads&) = delete;
};

// Calls work(thread) in each of some threads at once. What one throws is thrown here.
void at_once(const std::function<void(int thread)>& work) {
  std::vector<std::exception_ptr> failures(threads);
  {
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        try {
          work(thread);
        } catch (...) {
          failures[static_cast<std::size_t>(thread)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

constexpr std::int64_t features = 32;

// Wide enough that products and passes are shared out among threads.
Sequential model_of(int kind) {
  Sequential model =
      kind % 2 == 0
          ? Sequential{Linear{features, 300}, GELU{.drop_p = 0.2}, LayerNorm{300}, Linear{300, 5}}
          : Sequential{Linear{features, 64}, BatchNorm1d{64}, ReLU{.drop_p = 0.1}, Linear{64, 5}};
  model.set_generator(std::make_shared<Generator>(static_cast<std::uint64_t>(kind + 1)));
  return model;
}

// Losses and weights as text, which tells every bit of a float32 apart.
std::string trained(int kind, const Dataset& data, const Dataset& validation) {
  Sequential model = model_of(kind);
  const std::unique_ptr<Optimizer> optimizer =
      kind < 2 ? std::unique_ptr<Optimizer>(
                     std::make_unique<Adam>(model.parameters(), AdamOptions{.lr = 0.01}))
               : std::make_unique<SGD>(model.parameters(), SGDOptions{.lr = 0.05, .momentum = 0.9});
  FitOptions options{.epochs = 2,
                     .batch_size = 128,
                     .validation = &validation,
                     .seed = static_cast<std::uint64_t>(kind),
                     .max_grad_norm = 1.0,
                     .progress = false};
  if (kind == 3) {
    options.autocast = DType::float16;
  }
  Trainer trainer(model, CrossEntropyLoss{}, *optimizer);
  std::string out;
  for (const EpochReport& report : trainer.fit(data, options)) {
    out += text(std::hexfloat, report.loss, " ", report.validation->loss, " ");
  }
  for (const NamedParameter& parameter : model.parameters()) {
    const auto values = parameter.value().detach().to_vector<float>();
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return out;
}

TEST_CASE("models that train at once end in the bytes of each alone") {
  const TwoThreads two;
  const TensorDataset data = clouds(512, features, 5), validation = clouds(128, features, 5);
  std::vector<std::string> alone, together(threads);
  for (int kind = 0; kind < threads; ++kind) {
    alone.push_back(trained(kind, data, validation));
  }
  at_once([&](int kind) {
    together[static_cast<std::size_t>(kind)] = trained(kind, data, validation);
  });
  for (std::size_t kind = 0; kind < threads; ++kind) {
    CAPTURE(kind);
    const bool equal = together[kind] == alone[kind];
    CHECK(equal);
  }
}

TEST_CASE("one model in eval mode serves many threads") {
  const TwoThreads two;
  Sequential model{Linear{features, 300}, GELU{.drop_p = 0.2}, LayerNorm{300},    Linear{300, 64},
                   BatchNorm1d{64},       ReLU{.drop_p = 0.1}, Dropout{.p = 0.5}, Linear{64, 5}};
  {
    SGD optimizer{model.parameters(), {.lr = 0.05}};
    Trainer(model, CrossEntropyLoss{}, optimizer)
        .fit(clouds(256, features, 5), {.batch_size = 64, .progress = false});
  }
  model.eval();
  const Tensor x = clouds(200, features, 5).batch(std::vector<std::int64_t>{0, 7, 50, 199}).inputs;
  const auto classes = model.predict(x).to_vector<std::int64_t>();
  const auto shares = model.predict_probabilities(x).to_vector<float>();
  const auto logits = model(x).to_vector<float>();
  std::vector<int> wrong(threads);
  at_once([&](int thread) {
    int& count = wrong[static_cast<std::size_t>(thread)];
    for (int i = 0; i < 50; ++i) {
      count += model.predict(x).to_vector<std::int64_t>() != classes;
      count += model.predict_probabilities(x).to_vector<float>() != shares;
      const NoTape no_tape;
      count += model(x).to_vector<float>() != logits;
    }
  });
  CHECK(wrong == std::vector<int>(threads));
}

TEST_CASE("images, indices and attention in eval mode, each thread with a type of its own") {
  const TwoThreads two;
  Sequential images{Conv2d{2, 8, 3, {.padding = 1}},
                    BatchNorm2d{8},
                    ReLU{},
                    MaxPool2d{2},
                    Flatten{},
                    Linear{8 * 8 * 8, 5}};
  Sequential words{Embedding{11, 16}, MultiheadAttention{16, 4}, RMSNorm{16}, GLU{}};
  images.eval();
  words.eval();
  const Tensor x = Tensor::full({6, 2, 16, 16}, 0.5);
  const Tensor indices = Tensor::from<std::int64_t>({0, 3, 10, 4, 4, 1}, {2, 3});
  const auto of_images = images(x).to_vector<float>(), of_words = words(indices).to_vector<float>();
  std::vector<int> wrong(threads);
  at_once([&](int thread) {
    int& count = wrong[static_cast<std::size_t>(thread)];
    for (int i = 0; i < 10; ++i) {
      if (thread % 2 == 0) {
        count += images(x).to_vector<float>() != of_images;
        count += words(indices).to_vector<float>() != of_words;
      } else {
        const Autocast scope(DType::bfloat16);
        count += images(x).dtype() == DType::int64 || words(indices).dtype() == DType::int64;
      }
    }
  });
  CHECK(wrong == std::vector<int>(threads));
}

TEST_CASE("a scope of one thread is none of another's") {
  std::vector<int> wrong(threads);
  at_once([&](int thread) {
    int& count = wrong[static_cast<std::size_t>(thread)];
    const Tensor zero = Tensor::zeros({4});
    for (int i = 0; i < 200; ++i) {
      if (thread % 2 == 0) {
        const DetectAnomaly anomaly;
        try {
          zero / zero;
          ++count;
        } catch (const AnomalyError&) {
        }
      } else {
        zero / zero;  // is nobody's business
        count += DetectAnomaly::is_on() || Tape::current() != nullptr;
      }
    }
  });
  CHECK(wrong == std::vector<int>(threads));
}

TEST_CASE("models that are made in several threads differ") {
  std::vector<std::vector<float>> weights(threads);
  at_once([&](int thread) {
    Sequential model{Linear{3, 4}};
    weights[static_cast<std::size_t>(thread)] =
        model.parameters()[0].value().detach().to_vector<float>();
  });
  for (std::size_t i = 1; i < threads; ++i) {
    CHECK(weights[i] != weights[i - 1]);
  }
}

}  // namespace
}  // namespace sinter
