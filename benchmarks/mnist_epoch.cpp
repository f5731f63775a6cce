// Times epochs of the MNIST example's recipe; where the same recipe was built on LibTorch
// (peer_libtorch_mnist beside this program), runs both in turn and prints the ratio.
// Usage: bench_mnist_epoch [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <sinter/sinter.h>

using namespace sinter;

namespace {

constexpr int epochs = 2;  // the first warms up caches and threads and is not counted

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double own_rate(const datasets::Mnist& data) {
  manual_seed(7);
  Sequential model{Flatten{},        Linear{784, 256},    ReLU{.drop_p = 0.1},
                   Linear{256, 128}, ReLU{.drop_p = 0.1}, Linear{128, 10}};
  AdamW optimizer{model.parameters(), {.lr = 3e-3}};
  const auto reports = Trainer{model, CrossEntropyLoss{}, optimizer}.fit(
      data.train, {.epochs = epochs, .batch_size = 128, .progress = false});
  return static_cast<double>(reports.back().items) / reports.back().seconds;
}

// The peer prints its rate alone.
double peer_rate(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  check(pipe != nullptr, "cannot run ", command);
  char line[64] = "";
  const bool got = std::fgets(line, sizeof(line), pipe) != nullptr;
  check(::pclose(pipe) == 0 && got, "failed: ", command);
  return std::strtod(line, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  const datasets::Mnist data = datasets::mnist();
  const std::filesystem::path peer =
      std::filesystem::absolute(argv[0]).parent_path() / "peer_libtorch_mnist";
  const bool has_peer = std::filesystem::exists(peer);
  std::printf("%s\n784-256-128-10, ReLU, dropout 0.1, batch 128, AdamW; images/s\n",
              build_info().c_str());
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    std::vector<double> own;
    std::vector<double> other;
    for (int round = 0; round < rounds; ++round) {
      own.push_back(own_rate(data));
      if (has_peer) {
        other.push_back(
            peer_rate(peer.string() + " " + data.folder.string() + " " + std::to_string(threads)));
      }
    }
    std::printf("%d thread%s: sinter %.0f", threads, threads == 1 ? "" : "s", median(own));
    if (has_peer) {
      std::printf(", LibTorch %.0f, ratio %.2f", median(other), median(own) / median(other));
    }
    std::printf("\n");
  }
  if (!has_peer) {
    std::printf("(no LibTorch at configure time: install libtorch-dev to compare)\n");
  }
}
