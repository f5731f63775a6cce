// Trains LeNet-5 (LeCun et al., "Gradient-based learning applied to document recognition", 1998;
// with ReLU and maxima) on MNIST or Fashion-MNIST, of which it gets 89.0 % right. A GPU has no
// kernels for convolutions and pools yet: with --device cuda these run on the CPU, which a warning
// says, and the rest on the GPU.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include <sinter/sinter.h>

using namespace sinter;

int main(int argc, char** argv) {
  CLI::App app{"Trains LeNet-5 and reports its accuracy on the test images."};
  std::string folder, device = "cpu";
  std::int64_t epochs = 3, train_items = 0;
  app.add_option("--data", folder, "Folder with the four IDX files (default: as for mnist)");
  app.add_option("--device", device, "cpu or cuda")->capture_default_str();
  app.add_option("--epochs", epochs, "Passes over the training images")->capture_default_str();
  app.add_option("--train-items", train_items, "Train on the first N images only (0: all)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    datasets::Mnist data = datasets::mnist(folder, {.also_look_in = {SINTER_CHECKOUT_DATA}});
    if (train_items > 0) {
      data.train = data.train.take(train_items);
    }
    manual_seed(7);
    Sequential model{Conv2d{1, 6, 5, {.padding = 2}},
                     ReLU{},
                     MaxPool2d{2},
                     Conv2d{6, 16, 5},
                     ReLU{},
                     MaxPool2d{2},
                     Flatten{},
                     Linear{400, 120},
                     ReLU{},
                     Linear{120, 84},
                     ReLU{},
                     Linear{84, 10}};
    model.to(Device::parse(device));
    AdamW optimizer{model.parameters(), {.lr = 0.003}};
    Trainer trainer{model, CrossEntropyLoss{}, optimizer};
    trainer.fit(data.train, {.epochs = epochs, .batch_size = 64, .schedule = cosine(0.1)});
    std::printf("test accuracy %.1f%% on %s\n", 100 * *trainer.evaluate(data.test).accuracy,
                data.name.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lenet: %s\n", error.what());
    return 1;
  }
  return 0;
}
