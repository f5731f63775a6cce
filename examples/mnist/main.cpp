// Trains a small network on MNIST or Fashion-MNIST and reports its accuracy on the test images.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <sinter/sinter.h>

using namespace sinter;

namespace {

struct Settings {
  std::string data;
  std::int64_t epochs = 5;
  std::int64_t batch_size = 128;
  std::optional<double> lr;
  std::string optimizer = "adamw";
  std::string model =
      "flatten -> linear(784,256) -> relu(drop_p=0.1) -> linear(256,128) -> relu(drop_p=0.1) -> "
      "linear(128,10)";
  std::string device = "auto";
  std::optional<DType> autocast;
  std::uint64_t seed = 7;
  std::int64_t train_items = 0;  // 0: all
  std::string save;
  std::string resume;
  std::int64_t keep = 1;
  std::string weights;
  std::string json;
  bool no_progress = false;
};

void add_options(CLI::App& app, Settings& s) {
  app.add_option("--data", s.data,
                 "Folder with the four IDX files, plain or .gz (default: $SINTER_DATA, data/mnist "
                 "of the checkout, Debian's Fashion-MNIST)");
  app.add_option("--epochs", s.epochs, "Passes over the training images")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--batch-size", s.batch_size, "Images in a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", s.lr,
                 "Peak learning rate, from which it falls along a cosine (default: 0.003 for adam "
                 "and adamw, 0.1 for sgd, which has momentum 0.9)")
      ->check(CLI::PositiveNumber);
  app.add_option("--optimizer", s.optimizer, "sgd, adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--model", s.model, "Layers, first to last")->capture_default_str();
  app.add_option("--device", s.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--autocast", s.autocast,
                 "Mixed precision, float16 or bfloat16 (default: neither)")
      ->transform(CLI::Transformer(std::map<std::string, DType>{{"float16", DType::float16},
                                                                {"bfloat16", DType::bfloat16}}));
  app.add_option("--seed", s.seed, "Of weights, shuffling and dropout: same seed, same result")
      ->capture_default_str();
  app.add_option("--train-items", s.train_items, "Train on the first N images only (0: all)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option(
      "--save", s.save,
      "Write a checkpoint to this file after each epoch, and when Ctrl-C or SIGTERM ends "
      "the run (exit code 130 or 143)");
  app.add_option("--resume", s.resume,
                 "Go on from this checkpoint, as if the run had never stopped; the other flags as "
                 "they were, --epochs may be more; with --save it writes checkpoints too");
  app.add_option("--keep", s.keep,
                 "Keep the last N checkpoints: FILE, FILE's name with .1, .2, ...")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--weights", s.weights,
                 "Write the trained weights alone to this safetensors file");
  app.add_option("--json", s.json, "Write settings and results to this file");
  app.add_flag("--no-progress", s.no_progress, "No moving bar and no line for each epoch");
}

std::unique_ptr<Optimizer> make_optimizer(const Settings& s, const Parameters& parameters) {
  if (s.optimizer == "sgd") {
    return std::make_unique<SGD>(parameters, SGDOptions{.lr = s.lr.value_or(0.1), .momentum = 0.9});
  }
  const double lr = s.lr.value_or(3e-3);
  if (s.optimizer == "adam") {
    return std::make_unique<Adam>(parameters, AdamOptions{.lr = lr});
  }
  return std::make_unique<AdamW>(parameters, AdamWOptions{.lr = lr});
}

void write_json(const Settings& s, const std::string& data, Device device, double seconds,
                const std::vector<EpochReport>& reports, const Evaluation& test) {
  nlohmann::json out;
  out["data"] = data;
  out["device"] = device.str();
  out["model"] = s.model;
  out["optimizer"] = s.optimizer;
  out["autocast"] = s.autocast ? name_of(*s.autocast) : "off";
  out["epochs"] = reports.size();
  out["batch_size"] = s.batch_size;
  out["seed"] = s.seed;
  out["seconds"] = seconds;
  for (const EpochReport& report : reports) {
    out["train_loss"].push_back(report.loss);
    out["epoch_seconds"].push_back(report.seconds);
  }
  out["test_loss"] = test.loss;
  out["test_accuracy"] = *test.accuracy;
  out["build"] = build_info();
  std::ofstream file(s.json);
  file << out.dump(2) << "\n";
  file.close();
  check(file.good(), "cannot write ", full_path(s.json).string());
}

// The exit code.
int run(const Settings& s) {
  Sequential model = Sequential::parse(s.model);
  const DeviceChoice choice =
      s.device == "auto" ? best_device() : DeviceChoice{Device::parse(s.device), "asked for"};
  datasets::Mnist data = datasets::mnist(s.data, {.also_look_in = {SINTER_CHECKOUT_DATA}});
  std::printf("data: %s from %s; device: %s (%s)\n", data.name.c_str(), data.folder.c_str(),
              choice.device.str().c_str(), choice.reason.c_str());
  if (s.train_items > 0) {
    data.train = data.train.take(s.train_items);
  }

  manual_seed(s.seed);
  model.to(choice.device);
  std::printf(
      "%s",
      model.summary(data.train.images().shape().with(0, std::min(s.batch_size, data.train.size())))
          .c_str());
  std::fflush(stdout);
  const auto optimizer = make_optimizer(s, model.parameters());
  Trainer trainer{model, CrossEntropyLoss{}, *optimizer};
  const auto start = std::chrono::steady_clock::now();
  FitOptions options{.epochs = s.epochs,
                     .batch_size = s.batch_size,
                     .schedule = cosine(0.1),
                     .autocast = s.autocast,
                     .resume = s.resume,
                     .progress = !s.no_progress};
  if (!s.save.empty()) {
    options.checkpoint = CheckpointOptions{.path = s.save, .keep = s.keep};
  }
  const auto reports = trainer.fit(data.train, options);
  if (!reports.empty() && reports.back().stopped_by != 0) {
    const int signal = reports.back().stopped_by;
    std::printf("stopped by %s in epoch %lld; go on with --resume %s\n",
                signal == SIGINT ? "Ctrl-C" : "SIGTERM",
                static_cast<long long>(reports.back().epoch), s.save.c_str());
    return 128 + signal;  // as a shell says it
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Evaluation test = trainer.evaluate(data.test);

  double images = 0, epoch_seconds = 0;  // of the whole run, where this is the rest of one
  for (const EpochReport& report : reports) {
    images += static_cast<double>(report.items);
    epoch_seconds += report.seconds;
  }
  std::printf("test accuracy %.1f%% (%lld images), %lld epochs, %.1f s, %.0f images/s, device %s\n",
              100 * *test.accuracy, static_cast<long long>(test.items),
              static_cast<long long>(s.epochs), seconds,
              epoch_seconds > 0 ? images / epoch_seconds : 0.0,
              choice.device.type == DeviceType::cpu ? "cpu" : choice.device.str().c_str());
  std::fflush(stdout);
  // After the result is out: a full disk must not cost it.
  if (!s.weights.empty()) {
    save_weights(model, s.weights);
  }
  if (!s.json.empty()) {
    write_json(s, data.name, choice.device, seconds, reports, test);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Trains a multilayer perceptron on MNIST or Fashion-MNIST with fused activation and "
      "dropout, and reports its accuracy on the test images."};
  Settings settings;
  add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist: %s\n", error.what());
    return 1;
  }
}
