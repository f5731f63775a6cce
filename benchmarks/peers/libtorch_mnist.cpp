// The MNIST example's recipe on LibTorch: prints the images/s of its second epoch.
// Usage: peer_libtorch_mnist DATA_FOLDER THREADS
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <torch/torch.h>

#include <sinter/training/mnist.h>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: peer_libtorch_mnist DATA_FOLDER THREADS\n");
    return 2;
  }
  // The BLAS behind LibTorch has a thread pool of its own, which fights with OpenMP's unless it is
  // kept to one thread.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  torch::set_num_threads(std::atoi(argv[2]));
  torch::manual_seed(7);
  const auto data = sinter::datasets::mnist(argv[1]);
  const auto count = data.train.size();
  auto bytes = torch::empty({count, 784}, torch::kUInt8);
  data.train.images().copy_to(std::span<std::uint8_t>(bytes.data_ptr<std::uint8_t>(),
                                                      static_cast<std::size_t>(count * 784)));
  auto labels = torch::empty({count}, torch::kInt64);
  data.train.labels().copy_to(
      std::span<std::int64_t>(labels.data_ptr<std::int64_t>(), static_cast<std::size_t>(count)));

  torch::nn::Sequential model(torch::nn::Linear(784, 256), torch::nn::ReLU(),
                              torch::nn::Dropout(0.1), torch::nn::Linear(256, 128),
                              torch::nn::ReLU(), torch::nn::Dropout(0.1),
                              torch::nn::Linear(128, 10));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  double seconds = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const auto order = torch::randperm(count, torch::kInt64);
    double total = 0;
    for (std::int64_t at = 0; at < count; at += 128) {
      const auto index = order.slice(0, at, std::min<std::int64_t>(at + 128, count));
      const auto images = bytes.index_select(0, index).to(torch::kFloat32).mul_(1.0f / 255.0f);
      optimizer.zero_grad();
      auto loss = torch::cross_entropy_loss(model->forward(images), labels.index_select(0, index));
      loss.backward();
      optimizer.step();
      total += loss.item<double>() * static_cast<double>(index.size(0));
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "epoch %d loss %.4f\n", epoch + 1, total / static_cast<double>(count));
  }
  std::printf("%.0f\n", static_cast<double>(count) / seconds);
}
