// The programs that bench_cpu_mlp compares: where they are, and how one of them is run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recipe.h"

namespace bench {

/// How many threads each of a system's two pools may have: one has OpenMP's, one its BLAS.
struct ThreadSetting {
  int openmp = 1;
  int blas = 1;
};

/// A program that takes a recipe and prints samples/s.
struct System {
  std::string name;
  std::string command;
  bool is_peer = false;
  bool has_two_pools = false;
  std::string remark = "";  ///< on what it does otherwise than the rest
};

/// All that can be compared here: programs beside this one, which lies in `folder`, scripts in the
/// source tree.
std::vector<System> systems(const std::filesystem::path& folder);

/// The settings worth trying for `threads` threads.
std::vector<ThreadSetting> thread_settings(const System& system, int threads);

/// The command line as a shell reads it.
std::string command_line(const System& system, const ThreadSetting& setting, const Recipe& recipe);

/// What a run of a command printed: samples/s, or why the system cannot run here.
struct Outcome {
  double rate = 0;
  std::optional<std::string> skipped = std::nullopt;
};
/// Throws sinter::Error where the command fails or prints no number.
Outcome run_command(const std::string& command);

}  // namespace bench
