// Times whole training steps through the public API: forward, loss, backward, update.
// bench_mlp_step --help
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../json_file.h"
#include "profile.h"
#include "training.h"
#include <sinter/runtime/build_info.h>
#include <sinter/runtime/device.h>

namespace {

struct Options {
  std::vector<std::string> only;
  std::string device = "auto";
  std::string json;
  bool profile = false;
  bool tasks = false;
  bench::StepSettings step;
};

void add_options(CLI::App& app, Options& o) {
  std::vector<std::string> names;
  for (const bench::StepTask& task : bench::step_tasks()) {
    names.push_back(task.name);
  }
  app.add_option("--only", o.only, "Tasks, e.g. M1,M3 (default: all; on a CPU M1, M2, M4)")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--steps-per-graph", o.step.steps_per_graph, "Steps in one replay")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--eager", o.step.eager, "No graphs: launch by launch");
  app.add_flag("--autocast", o.step.autocast,
               "16-bit tasks with float32 parameters, in an Autocast scope");
  app.add_option("--runs", o.step.runs, "The median of so many counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--profile", o.profile, "Print the kernels of a step with their times instead");
  app.add_flag("--tasks", o.tasks, "Print what the tasks are instead");
  app.add_option("--json", o.json, "Also write the results to this file");
}

std::vector<bench::StepTask> chosen_tasks(const Options& o) {
  std::vector<bench::StepTask> tasks = bench::step_tasks();
  std::erase_if(tasks, [&](const bench::StepTask& task) {
    const bool is_cpu = o.step.device.type == sinter::DeviceType::cpu;
    return o.only.empty() ? is_cpu && !o.tasks && !task.suits_cpu
                          : std::ranges::find(o.only, task.name) == o.only.end();
  });
  return tasks;
}

double teraflops(const bench::StepTask& task, double us) { return task.flops() / us * 1e-6; }

nlohmann::ordered_json json_row(const bench::StepTask& task, const bench::StepResult& result) {
  return {{"system", "sinter"},
          {"task", task.name},
          {"us", result.us},
          {"runs", result.runs},
          {"replayed", result.replayed},
          {"tflops", teraflops(task, result.us)},
          {"peak_bytes", result.peak_bytes},
          {"first_loss", result.first_loss},
          {"last_loss", result.last_loss},
          {"problem", result.problem}};
}

/// Whether all results count.
bool time_tasks(const Options& o, const std::vector<bench::StepTask>& tasks) {
  std::printf("medians of %d runs; %s\n%-6s %10s %17s %8s %9s  %s\n", o.step.runs,
              o.step.eager ? "launched one by one"
                           : sinter::text(o.step.steps_per_graph, " steps a call").c_str(),
              "", "us a step", "min - max", "TFLOP/s", "peak MiB", "loss");
  auto rows = nlohmann::ordered_json::array();
  bool all_count = true;
  for (const bench::StepTask& task : tasks) {
    const bench::StepResult result = bench::time_steps(task, o.step);
    const auto [least, most] = std::ranges::minmax(result.runs);
    std::printf("%-6s %10.2f %8.2f -%7.2f %8.1f %9.1f  %.3f, then %.4f%s%s\n", task.name.c_str(),
                result.us, least, most, teraflops(task, result.us),
                static_cast<double>(result.peak_bytes) / 1048576, result.first_loss,
                result.last_loss, result.replayed ? "" : "; no graph",
                result.problem.empty() ? "" : ("; DOES NOT COUNT: " + result.problem).c_str());
    std::fflush(stdout);
    rows.push_back(json_row(task, result));
    all_count = all_count && result.problem.empty();
  }
  if (!o.json.empty()) {
    bench::write_json_file(o.json, {{"device", o.step.device.str()},
                                    {"versions", {{"sinter", sinter::build_info()}}},
                                    {"date", bench::today()},
                                    {"steps_per_graph", o.step.steps_per_graph},
                                    {"rows", rows}});
  }
  return all_count;
}

void profile_task(const bench::StepTask& task, const bench::StepSettings& settings) {
  sinter::check(settings.device.type == sinter::DeviceType::cuda,
                "--profile is for a GPU; on a CPU bench_cpu_mlp --profile does the like");
  bench::Training training(task, settings);
  const bench::Profile profile = bench::profile_kernels([&] { training.warm_up(); },
                                                        [&] {
                                                          training.advance();
                                                          sinter::synchronize(settings.device);
                                                        });
  const double steps = static_cast<double>(settings.steps_per_graph);
  double busy = 0;
  for (const bench::Kernel& kernel : profile.kernels) {
    busy += kernel.us;
  }
  std::printf("\n%s, %s: %.2f us a step while it is watched, %.2f us of it in kernels\n",
              task.name.c_str(), training.replays() ? "replayed" : "launched one by one",
              profile.us / steps, busy / steps);
  std::printf("%9s %7s %9s  kernel\n", "us a step", "a step", "us each");
  for (const bench::Kernel& kernel : profile.kernels) {
    const auto count = static_cast<double>(kernel.count);
    std::printf("%9.2f %7.2f %9.2f  %.160s\n", kernel.us / steps, count / steps, kernel.us / count,
                kernel.name.c_str());
  }
}

int run(Options& o) {
  if (!o.tasks) {
    o.step.device = sinter::Device::parse(o.device);
    std::printf("%s\n", sinter::build_info().c_str());
  }
  const std::vector<bench::StepTask> tasks = chosen_tasks(o);
  if (!o.tasks && !o.profile) {
    return time_tasks(o, tasks) ? 0 : 1;
  }
  for (const bench::StepTask& task : tasks) {
    if (o.tasks) {
      std::printf("%s\n", words(task).c_str());
    } else {
      profile_task(task, o.step);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times whole training steps: forward, loss, backward, update."};
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_mlp_step: %s\n", error.what());
    return 1;
  }
}
