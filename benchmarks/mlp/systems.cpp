#include "systems.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>

#include <sinter/runtime/cpu_path.h>
#include <sinter/runtime/error.h>

namespace bench {
namespace {

namespace fs = std::filesystem;

constexpr int skipped_status = 77;  // as in automake's tests: not run, and it said why

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

/// The first Python that has the module: a system may hold several.
std::string python_with(const std::string& module) {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(python) + " -c 'import " + module + "' 2>/dev/null";
    if (std::system(probe.c_str()) == 0) {
      return python;
    }
  }
  return "python3";  // the script then says what is missing
}

}  // namespace

std::vector<System> systems(const fs::path& folder) {
  const auto beside = [&](const std::string& name) { return quoted((folder / name).string()); };
  const auto script = [&](const std::string& name, const std::string& module) {
    return python_with(module) + " " + quoted((fs::path(SINTER_BENCH_PEERS) / name).string());
  };
  const std::string path(sinter::name_of(sinter::cpu_path()));
  return {
      {.name = "sinter", .command = beside("mlp_sinter")},
      {.name = "products", .command = beside("mlp_products_" + path), .remark = "Eigen, " + path},
      {.name = "LibTorch",
       .command = fs::exists(folder / "mlp_libtorch")
                      ? beside("mlp_libtorch")
                      : "sh -c 'echo install libtorch-dev and libopenblas0-pthread, then configure "
                        "again; exit 77'",
       .is_peer = true,
       .has_two_pools = true},
      {.name = "NumPy", .command = script("numpy_mlp.py", "numpy, scipy"), .is_peer = true},
      {.name = "scikit-learn",
       .command = script("sklearn_mlp.py", "sklearn"),
       .is_peer = true,
       .remark = "ReLU, no dropout, no bytes to convert"},
  };
}

std::vector<ThreadSetting> thread_settings(const System& system, int threads) {
  if (!system.has_two_pools || threads == 1) {
    return {{threads, threads}};
  }
  return {{threads, 1}, {1, threads}, {threads, threads}};
}

std::string command_line(const System& system, const ThreadSetting& setting, const Recipe& recipe) {
  return "OMP_NUM_THREADS=" + std::to_string(setting.openmp) +
         " OPENBLAS_NUM_THREADS=" + std::to_string(setting.blas) + " " + system.command +
         " data=" + quoted(recipe.data) + " " + words(recipe);
}

Outcome run_command(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  sinter::check(pipe != nullptr, "cannot run ", command);
  std::string output;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) {
    output += part.data();
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped_status) {
    return {.skipped = output.substr(0, output.find('\n'))};
  }
  const double rate = std::strtod(output.c_str(), nullptr);
  sinter::check(status == 0 && rate > 0, "failed, run it by hand to see why: ", command);
  return {.rate = rate};
}

}  // namespace bench
