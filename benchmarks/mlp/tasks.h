// The tasks that bench_cpu_mlp times.
#pragma once

#include <string>
#include <vector>

#include "recipe.h"

namespace bench {

struct Task {
  std::string name;
  Recipe recipe;
  bool in_microseconds = false;  ///< of a step; else in samples/s
  int most_threads = 1024;       ///< more make no sense
};

inline std::vector<Task> all_tasks() {
  return {
      {"T1",
       {.sizes = {784, 256, 128, 10},
        .drop = 0.1,
        .batch = 128,
        .optimizer = "sgd",
        .lr = 0.05,
        .items = 468 * 128}},
      {"T2",
       {.sizes = {784, 256, 128, 10},
        .drop = 0.1,
        .batch = 64,
        .optimizer = "adam",
        .lr = 1e-3,
        .items = 937 * 64}},
      // A third of the images: 80 steps are long enough to time.
      {"T3",
       {.sizes = {784, 1024, 1024, 10},
        .activation = "gelu",
        .drop = 0.1,
        .batch = 256,
        .optimizer = "sgd",
        .lr = 0.05,
        .items = 80 * 256}},
      {.name = "batch1",
       .recipe = {.sizes = {784, 128, 10}, .batch = 1, .lr = 0.002, .items = 4000, .load = false},
       .in_microseconds = true,
       .most_threads = 1},
      {.name = "small",
       .recipe = {.sizes = {784, 32, 10}, .batch = 4, .lr = 0.005, .items = 16000, .load = false},
       .in_microseconds = true},
  };
}

}  // namespace bench
