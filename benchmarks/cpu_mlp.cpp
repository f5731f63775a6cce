// Times training steps of small networks on the CPU: sinter, the matrix products alone, and peers,
// in turn, each in a process of its own. bench_cpu_mlp --help
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "median.h"
#include "mlp/profile.h"
#include "mlp/systems.h"
#include "mlp/table.h"
#include "mlp/tasks.h"
#include <sinter/sinter.h>

namespace {

struct Settings {
  std::vector<std::string> tasks;
  std::vector<int> threads;
  std::vector<std::string> only;
  int rounds = 5;
  bool no_peers = false;
  bool commands = false;
  bool profile = false;
  std::string data;
  std::string json;
};

void add_options(CLI::App& app, Settings& s) {
  std::vector<std::string> names;
  for (const bench::Task& task : bench::all_tasks()) {
    names.push_back(task.name);
  }
  app.add_option("tasks", s.tasks, "T1 T2 T3 batch1 small (default: all)")
      ->check(CLI::IsMember(names));
  app.add_option("--threads", s.threads,
                 "Numbers of threads, e.g. 1,2 (default: 1, and 2 if there)")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", s.rounds,
                 "Runs of each system, about two minutes together; the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", s.only, "Systems to run, e.g. sinter,products")->delimiter(',');
  app.add_flag("--no-peers", s.no_peers, "Run sinter and the products alone");
  app.add_option("--data", s.data, "Folder of the images (default: as datasets::mnist() looks)");
  app.add_option("--json", s.json, "Write every measured rate to this file");
  app.add_flag("--profile", s.profile,
               "Print where the time of sinter's step goes, and nothing else");
  app.add_flag("--commands", s.commands, "Print the command of each run instead of running it");
}

template <class T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::ranges::find(list, value) != list.end();
}

std::vector<bench::System> chosen_systems(const Settings& s, const std::filesystem::path& folder) {
  std::vector<bench::System> all = bench::systems(folder);
  if (s.profile) {
    return {all.front()};  // sinter
  }
  std::string names;
  for (const bench::System& system : all) {
    names += (names.empty() ? "" : ", ") + system.name;
  }
  for (const std::string& name : s.only) {
    sinter::check(std::ranges::find(all, name, &bench::System::name) != all.end(), "--only ", name,
                  ": expected some of ", names);
  }
  std::erase_if(all, [&](const bench::System& system) {
    return s.only.empty() ? s.no_peers && system.is_peer : !contains(s.only, system.name);
  });
  return all;
}

std::vector<bench::Comparison> planned(const Settings& s, const std::string& data,
                                       const std::vector<bench::System>& systems) {
  std::vector<int> counts = s.threads;
  if (counts.empty()) {
    counts = std::thread::hardware_concurrency() > 1 ? std::vector{1, 2} : std::vector{1};
  }
  std::vector<bench::Comparison> out;
  for (bench::Task task : bench::all_tasks()) {
    for (const int threads : counts) {
      if ((!s.tasks.empty() && !contains(s.tasks, task.name)) || threads > task.most_threads) {
        continue;
      }
      task.recipe.data = data;
      task.recipe.threads = threads;
      bench::Comparison& comparison = out.emplace_back(bench::Comparison{task, threads, {}});
      for (const bench::System& system : systems) {
        for (const bench::ThreadSetting& setting : bench::thread_settings(system, threads)) {
          comparison.series.push_back({system, setting});
        }
      }
    }
  }
  return out;
}

void print_profiles(const std::vector<bench::Comparison>& comparisons, int rounds) {
  for (const bench::Comparison& comparison : comparisons) {
    const bench::Series& sinter = comparison.series.front();
    const bench::Recipe& recipe = comparison.task.recipe;
    std::vector<double> us;
    for (int round = 0; round < rounds; ++round) {
      const double rate =
          bench::run_command(bench::command_line(sinter.system, sinter.setting, recipe)).rate;
      us.push_back(1e6 * static_cast<double>(recipe.batch) / rate);
    }
    bench::print_profile(comparison.task, bench::median(us));
  }
}

/// Gives up the settings that came to less than half of the same system's best.
void drop_hopeless(bench::Comparison& comparison) {
  const std::vector<bench::Series> best = comparison.best();
  std::erase_if(comparison.series, [&](const bench::Series& series) {
    return std::ranges::any_of(best, [&](const bench::Series& other) {
      return other.system.name == series.system.name &&
             bench::median(series.rates) < 0.5 * bench::median(other.rates);
    });
  });
}

/// `said` are the excuses already printed.
void run(bench::Comparison& comparison, int rounds, std::set<std::string>& said) {
  for (int round = 0; round < rounds; ++round) {
    std::set<std::string> skipped;
    for (bench::Series& series : comparison.series) {
      const std::string& name = series.system.name;
      if (skipped.contains(name)) {
        continue;
      }
      const bench::Outcome outcome = bench::run_command(
          bench::command_line(series.system, series.setting, comparison.task.recipe));
      if (!outcome.skipped) {
        series.rates.push_back(outcome.rate);
        continue;
      }
      skipped.insert(name);
      if (said.insert(name + *outcome.skipped).second) {
        std::printf("\n%s: SKIPPED, %s\n", name.c_str(), outcome.skipped->c_str());
      }
    }
    std::erase_if(comparison.series, [&](const bench::Series& series) {
      return skipped.contains(series.system.name);
    });
    drop_hopeless(comparison);
  }
}

void run(const Settings& s, const std::filesystem::path& folder) {
  const sinter::datasets::Mnist data = sinter::datasets::mnist(s.data);
  const std::vector<bench::System> systems = chosen_systems(s, folder);
  std::vector<bench::Comparison> comparisons = planned(s, data.folder.string(), systems);
  if (s.commands) {
    for (const bench::Comparison& comparison : comparisons) {
      for (const bench::Series& series : comparison.series) {
        std::printf(
            "%s\n",
            bench::command_line(series.system, series.setting, comparison.task.recipe).c_str());
      }
    }
    return;
  }
  std::printf("%s\n%s; %s\n", sinter::build_info().c_str(), bench::machine().c_str(),
              data.name.c_str());
  if (s.profile) {
    print_profiles(comparisons, s.rounds);
    return;
  }
  std::printf(
      "Medians of %d rounds, the systems in turn, each in a process that trains once to warm up "
      "and once on\nthe clock: T1 and T2 an epoch, T3 80 steps, batch1 and small 4000 steps on "
      "batches made before.\n",
      s.rounds);
  std::set<std::string> said;
  for (bench::Comparison& comparison : comparisons) {
    run(comparison, s.rounds, said);
    bench::print(comparison);
    if (!s.json.empty()) {
      bench::write_json(comparisons, s.json);  // each time: what is measured is not lost
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times training on the CPU: sinter, the matrix products alone, and peers."};
  Settings settings;
  add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    run(settings, std::filesystem::read_symlink("/proc/self/exe").parent_path());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_cpu_mlp: %s\n", error.what());
    return 1;
  }
}
