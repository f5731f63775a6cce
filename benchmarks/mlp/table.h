// What was measured, as a table for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "systems.h"
#include "tasks.h"

namespace bench {

/// The rates of one system under one thread setting.
struct Series {
  System system;
  ThreadSetting setting;
  std::vector<double> rates = {};  ///< samples/s, one for each round
};

/// One task with one number of threads.
struct Comparison {
  Task task;
  int threads = 1;
  std::vector<Series> series;

  /// The best setting of each system, in the order of the systems.
  std::vector<Series> best() const;
};

void print(const Comparison& comparison);
/// Throws sinter::Error where the file cannot be written.
void write_json(const std::vector<Comparison>& comparisons, const std::string& file);
/// "AMD EPYC, 2 processors": where the numbers are from.
std::string machine();

}  // namespace bench
