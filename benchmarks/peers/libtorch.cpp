// LibTorch's run of a recipe: prints samples/s. Threads are set from outside, by OMP_NUM_THREADS
// and OPENBLAS_NUM_THREADS, for they are two pools that fight.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "../mlp/recipe.h"
#include <sinter/training/mnist.h>

namespace {

torch::nn::Sequential make_model(const bench::Recipe& recipe) {
  torch::nn::Sequential model;
  for (std::size_t i = 0; i + 1 < recipe.sizes.size(); ++i) {
    model->push_back(torch::nn::Linear(recipe.sizes[i], recipe.sizes[i + 1]));
    if (i + 2 == recipe.sizes.size()) {
      break;
    }
    if (recipe.activation == "gelu") {
      model->push_back(torch::nn::GELU());
    } else {
      model->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));  // in place
    }
    if (recipe.drop > 0) {
      model->push_back(torch::nn::Dropout(recipe.drop));
    }
  }
  return model;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const bench::Recipe& recipe,
                                                        torch::nn::Sequential& model) {
  if (recipe.optimizer == "adam") {
    return std::make_unique<torch::optim::Adam>(model->parameters(),
                                                torch::optim::AdamOptions(recipe.lr));
  }
  return std::make_unique<torch::optim::SGD>(
      model->parameters(), torch::optim::SGDOptions(recipe.lr).momentum(recipe.momentum));
}

struct Data {
  torch::Tensor bytes;   // [items, pixels]
  torch::Tensor labels;  // [items]

  torch::Tensor images(const torch::Tensor& index) const {
    return bytes.index_select(0, index).to(torch::kFloat32).mul_(1.0f / 255.0f);
  }
};

Data read(const bench::Recipe& recipe) {
  const auto set = sinter::datasets::mnist(recipe.data).train.take(recipe.items);
  Data data{torch::empty({recipe.items, recipe.sizes[0]}, torch::kUInt8),
            torch::empty({recipe.items}, torch::kInt64)};
  set.images().copy_to(std::span<std::uint8_t>(data.bytes.data_ptr<std::uint8_t>(),
                                               static_cast<std::size_t>(data.bytes.numel())));
  set.labels().copy_to(std::span<std::int64_t>(data.labels.data_ptr<std::int64_t>(),
                                               static_cast<std::size_t>(recipe.items)));
  return data;
}

double run(const bench::Recipe& recipe) {
  torch::manual_seed(7);
  const Data data = read(recipe);
  auto model = make_model(recipe);
  const auto optimizer = make_optimizer(recipe, model);
  const auto step = [&](const torch::Tensor& images, const torch::Tensor& labels) {
    model->zero_grad(true);  // to none: faster than the optimizer's, which clears
    auto loss = torch::cross_entropy_loss(model->forward(images), labels);
    loss.backward();
    optimizer->step();
    return loss.item<double>();
  };

  std::vector<std::pair<torch::Tensor, torch::Tensor>> at_hand;
  for (std::int64_t i = 0; !recipe.load && i < bench::batches_at_hand; ++i) {
    const auto index = torch::arange(i * recipe.batch, (i + 1) * recipe.batch, torch::kInt64);
    at_hand.emplace_back(data.images(index), data.labels.index_select(0, index));
  }
  double seconds = 0;
  double total = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    total = 0;
    const auto start = std::chrono::steady_clock::now();
    if (recipe.load) {
      const auto order = torch::randperm(recipe.items, torch::kInt64);
      for (std::int64_t at = 0; at < recipe.items; at += recipe.batch) {
        const auto index = order.slice(0, at, at + recipe.batch);
        total += step(data.images(index), data.labels.index_select(0, index));
      }
    } else {
      for (std::int64_t i = 0; i < recipe.steps(); ++i) {
        const auto& [images, labels] = at_hand[static_cast<std::size_t>(i) % at_hand.size()];
        total += step(images, labels);
      }
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  sinter::check(total / static_cast<double>(recipe.steps()) < 2, "LibTorch learnt nothing");
  return static_cast<double>(recipe.items) / seconds;
}

/// Debian's default is the reference BLAS, ten times slower: no peer.
bool has_reference_blas() {
  std::ifstream file("/proc/self/maps");
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&maps](const char* name) { return maps.find(name) != maps.npos; };
  return has("/libblas.so") && !has("openblas") && !has("blis") && !has("mkl") && !has("atlas");
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Recipe recipe = bench::parse(argc, argv);
  if (has_reference_blas()) {
    std::printf("LibTorch would use the reference BLAS: install libopenblas0-pthread\n");
    return 77;
  }
  try {
    std::printf("%.1f\n", run(recipe));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
