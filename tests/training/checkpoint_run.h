// A small run with everything that a checkpoint holds, and what is compared of two of them.
#pragma once

#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clouds.h"
#include <sinter/sinter.h>

namespace sinter::testing {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Parameters)>;

inline std::unique_ptr<Optimizer> make_adam(Parameters parameters) {
  return std::make_unique<Adam>(std::move(parameters), AdamOptions{.lr = 0.01});
}

/// Cross entropy that raises SIGINT when it is called for the `left`th time in training, if ever.
struct StoppingLoss {
  std::shared_ptr<std::int64_t> left;
  Module* model;
  Tensor operator()(const Tensor& output, const Tensor& targets) const {
    if (model->training() && --*left == 0) {
      std::raise(SIGINT);
    }
    return cross_entropy(output, targets);
  }
};

/// Dropout, running statistics, and one parameter that is not trained.
struct SmallRun {
  explicit SmallRun(const MakeOptimizer& make = make_adam, std::uint64_t seed = 3,
                    Device device = Device::cpu()) {
    manual_seed(seed);
    model = std::make_unique<Sequential>(Sequential{Linear{12, 17}, BatchNorm1d{17},
                                                    GELU{.drop_p = 0.2}, Linear{17, 9},
                                                    ReLU{.drop_p = 0.1}, Linear{9, 5}});
    model->to(device);
    model->parameters().back().set_trainable(false);
    optimizer = make(model->parameters());
    trainer = std::make_unique<Trainer>(*model, StoppingLoss{stop, model.get()}, *optimizer);
  }

  /// From now on so many steps are made before a signal comes.
  void stop_after(std::int64_t steps) { *stop = steps; }

  /// Every byte that the next step depends on, and the reports but for their seconds.
  std::string bytes(const std::vector<EpochReport>& reports) {
    std::string out;
    const auto add = [&out](const void* from, std::size_t count) {
      out.append(static_cast<const char*>(from), count);
    };
    const auto add_tensor = [&add](const Tensor& tensor) {
      const Tensor host = tensor.detach().to(Device::cpu());
      add(host.address(), host.bytes());
    };
    for (const auto& [name, tensor] : state_dict(*model)) {
      add_tensor(tensor);
    }
    optimizer->skip_step();  // before the first step it may have no state yet, which is zeros
    for (const Tensor& tensor : optimizer->state()) {
      add_tensor(tensor);
    }
    const Generator& generator = *model->generator();
    const double lr = optimizer->lr();
    add(&lr, sizeof lr);
    out += text(" steps ", optimizer->steps(), " seed ", generator.seed(), " at ", generator.step(),
                " ", generator.next_call(), " ", generator.next_parameter());
    for (const EpochReport& report : reports) {
      out += text(" epoch ", report.epoch, " items ", report.items, " skipped ", report.skipped);
      add(&report.loss, sizeof report.loss);
      if (report.validation) {
        add(&report.validation->loss, sizeof report.validation->loss);
        const double accuracy = report.validation->accuracy.value_or(-1);
        add(&accuracy, sizeof accuracy);
      }
    }
    return out;
  }

  std::shared_ptr<std::int64_t> stop = std::make_shared<std::int64_t>(0);
  std::unique_ptr<Sequential> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
};

}  // namespace sinter::testing
