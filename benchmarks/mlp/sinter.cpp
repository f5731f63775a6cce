// sinter's own run of a recipe, through its public API as a user would write it: prints samples/s.
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "model.h"
#include "recipe.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// Seconds of an epoch of steps whose batches are there already.
double seconds_at_hand(const bench::Recipe& recipe, const InMemoryDataset& data, Sequential& model,
                       Optimizer& optimizer) {
  std::vector<Batch> batches;
  DataLoader loader(data, {.batch_size = recipe.batch});
  for (const Batch& batch : loader) {
    batches.push_back(batch);
    if (std::ssize(batches) == bench::batches_at_hand) {
      break;
    }
  }
  model.train();
  double seconds = 0;
  double loss_of_last = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < recipe.steps(); ++i) {
      const Batch& batch = batches[static_cast<std::size_t>(i) % batches.size()];
      Tape tape;
      const Tensor loss = cross_entropy(model(batch.inputs), batch.targets);
      tape.backward(loss);
      optimizer.step();
      loss_of_last = loss.item();
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  check(loss_of_last < 2, "sinter learnt nothing: loss ", loss_of_last);
  return seconds;
}

double seconds_of_epoch(const bench::Recipe& recipe, const InMemoryDataset& data, Sequential& model,
                        Optimizer& optimizer) {
  const EpochReport epoch =
      Trainer{model, CrossEntropyLoss{}, optimizer}
          .fit(data, {.epochs = 2, .batch_size = recipe.batch, .progress = false})
          .back();
  check(epoch.loss < 2, "sinter learnt nothing: loss ", epoch.loss);
  return epoch.seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Recipe recipe = bench::parse(argc, argv);
  try {
    set_num_threads(recipe.threads);
    manual_seed(7);
    const InMemoryDataset data = datasets::mnist(recipe.data).train.take(recipe.items);
    Sequential model = bench::make_model(recipe);
    const auto optimizer = bench::make_optimizer(recipe, model);
    const double seconds = recipe.load ? seconds_of_epoch(recipe, data, model, *optimizer)
                                       : seconds_at_hand(recipe, data, model, *optimizer);
    std::printf("%.1f\n", static_cast<double>(recipe.items) / seconds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
