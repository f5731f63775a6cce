// The tasks that bench_mlp_step times; its peers get them as words from `bench_mlp_step --tasks`.
#pragma once

#include <string>
#include <vector>

#include "../mlp/recipe.h"
#include <sinter/runtime/dtype.h>
#include <sinter/runtime/error.h>

namespace bench {

struct StepTask {
  std::string name;
  Recipe recipe;
  sinter::DType dtype = sinter::DType::float32;  ///< of weights and inputs
  bool suits_cpu = false;                        ///< run on a CPU unless others are asked for

  /// Weights and biases of the Linears.
  double parameters() const {
    double count = 0;
    for (std::size_t i = 0; i + 1 < recipe.sizes.size(); ++i) {
      count += static_cast<double>((recipe.sizes[i] + 1) * recipe.sizes[i + 1]);
    }
    return count;
  }
  /// Of a step, as everybody counts them: 2 a parameter and item forward, 4 backward.
  double flops() const { return 6 * static_cast<double>(recipe.batch) * parameters(); }
};

inline std::vector<StepTask> step_tasks() {
  const auto task = [](const std::string& name, std::vector<std::int64_t> sizes,
                       const std::string& activation, std::int64_t batch) {
    return StepTask{.name = name,
                    .recipe = {.sizes = std::move(sizes),
                               .activation = activation,
                               .drop = 0.1,
                               .batch = batch,
                               .items = 60000}};
  };
  const auto with_adam = [](StepTask one, double lr) {
    one.recipe.optimizer = "adam";
    one.recipe.lr = lr;
    return one;
  };
  std::vector<StepTask> tasks{
      task("M1", {784, 256, 128, 10}, "relu", 128),
      with_adam(task("M2", {784, 256, 128, 10}, "relu", 64), 1e-3),
      with_adam(task("M3", {784, 1024, 1024, 10}, "gelu", 256), 1e-3),
      task("M4", {784, 128, 10}, "gelu", 1024),
      with_adam(task("M5", {4096, 4096, 4096, 4096, 4096, 1000}, "gelu", 8192), 1e-4),
      // No size is a multiple of a tile.
      task("M1odd", {784, 250, 130, 10}, "relu", 100),
  };
  tasks[0].suits_cpu = tasks[1].suits_cpu = tasks[3].suits_cpu = true;
  tasks[3].recipe.momentum = 0;
  tasks[4].dtype = sinter::DType::bfloat16;
  tasks[4].recipe.items = 4 * 8192;
  return tasks;
}

/// "M5 sizes=... dtype=bfloat16 flops=..."
inline std::string words(const StepTask& task) {
  return sinter::text(task.name, " ", words(task.recipe), " dtype=", task.dtype,
                      " flops=", static_cast<std::int64_t>(task.flops()));
}

}  // namespace bench
