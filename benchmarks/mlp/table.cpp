#include "table.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>

#include "../json_file.h"
#include "../median.h"
#include <sinter/runtime/build_info.h>

namespace bench {
namespace {

/// In the unit that the task is told in.
double shown(const Task& task, double rate) {
  return task.in_microseconds ? 1e6 * static_cast<double>(task.recipe.batch) / rate : rate / 1000;
}

std::string remark(const Series& series) {
  std::string text = series.system.remark;
  if (series.setting.openmp != series.setting.blas) {
    text += (text.empty() ? "" : ", ") +
            sinter::text("threads: OpenMP ", series.setting.openmp, ", BLAS ", series.setting.blas);
  }
  return text;
}

}  // namespace

std::vector<Series> Comparison::best() const {
  std::vector<Series> out;
  for (const Series& candidate : series) {
    if (candidate.rates.empty()) {
      continue;
    }
    if (out.empty() || out.back().system.name != candidate.system.name) {
      out.push_back(candidate);
    } else if (median(candidate.rates) > median(out.back().rates)) {
      out.back() = candidate;
    }
  }
  return out;
}

void print(const Comparison& comparison) {
  const Task& task = comparison.task;
  const Recipe& recipe = task.recipe;
  std::printf("\n%s: %s, %s", task.name.c_str(), sizes_text(recipe).c_str(),
              recipe.activation.c_str());
  if (recipe.drop > 0) {
    std::printf(", dropout %g", recipe.drop);
  }
  std::printf(", %s, batch %lld; %d thread%s\n", recipe.optimizer.c_str(),
              static_cast<long long>(recipe.batch), comparison.threads,
              comparison.threads == 1 ? "" : "s");
  std::printf("  %-14s %10s %17s  %s\n", "", task.in_microseconds ? "us a step" : "k samples/s",
              "min - max", "sinter's speed / its");
  const std::vector<Series> best = comparison.best();
  for (const Series& series : best) {
    const auto [least, most] = std::ranges::minmax(series.rates);
    const double ends[] = {shown(task, least), shown(task, most)};
    std::printf("  %-14s %10.1f %8.1f -%7.1f", series.system.name.c_str(),
                shown(task, median(series.rates)), std::min(ends[0], ends[1]),
                std::max(ends[0], ends[1]));
    if (best.front().system.name == "sinter" && &series != &best.front()) {
      std::printf("  %5.2f", median(best.front().rates) / median(series.rates));
    } else {
      std::printf("       ");
    }
    const std::string note = remark(series);
    std::printf("  %s\n", note.c_str());
  }
  std::fflush(stdout);
}

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown processor";
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) {
      model = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
  }
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " processors";
}

void write_json(const std::vector<Comparison>& comparisons, const std::string& file) {
  nlohmann::ordered_json out;
  out["build"] = sinter::build_info();
  out["machine"] = machine();
  out["date"] = today();
  for (const Comparison& comparison : comparisons) {
    for (const Series& series : comparison.series) {
      if (!series.rates.empty()) {
        out["runs"].push_back({{"task", comparison.task.name},
                               {"threads", comparison.threads},
                               {"system", series.system.name},
                               {"openmp_threads", series.setting.openmp},
                               {"blas_threads", series.setting.blas},
                               {"samples_per_second", series.rates}});
      }
    }
  }
  write_json_file(file, out);
}

}  // namespace bench
