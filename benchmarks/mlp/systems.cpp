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

struct Printed {
  std::string text;
  int status;  // as of wait()
};

Printed run_shell(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  sinter::check(pipe != nullptr, "cannot run ", command);
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) {
    text += part.data();
  }
  return {text.substr(0, text.find('\n')), ::pclose(pipe)};
}

/// A peer that is a script, run by the first Python that has its modules: a system may hold
/// several.
System python_peer(const std::string& name, const std::string& script, const std::string& module,
                   const std::string& more_modules = "") {
  System peer{.name = name, .command = "", .is_peer = true};
  const std::string file = quoted((fs::path(SINTER_BENCH_PEERS) / script).string());
  peer.command = "python3 " + file;  // says what is missing, if nothing below is found
  for (const std::string& modules : {module + more_modules, module}) {
    for (const std::string python : {"python3", "/usr/bin/python3"}) {
      const Printed version = run_shell(python + " -c 'import " + modules + "; print(" + module +
                                        ".__version__)' 2>/dev/null");
      if (version.status == 0) {
        peer.command = python + " " + file;
        peer.remark = version.text;
        return peer;
      }
    }
  }
  return peer;
}

}  // namespace

std::vector<System> systems(const fs::path& folder) {
  const auto beside = [&](const std::string& name) { return quoted((folder / name).string()); };
  const std::string path(sinter::name_of(sinter::cpu_path()));
  const bool has_libtorch = fs::exists(folder / "mlp_libtorch");
  System sklearn = python_peer("scikit-learn", "sklearn_mlp.py", "sklearn");
  sklearn.remark +=
      (sklearn.remark.empty() ? "" : ", ") + std::string("ReLU, no dropout, floats in memory");
  return {
      {.name = "sinter", .command = beside("mlp_sinter")},
      {.name = "products", .command = beside("mlp_products_" + path), .remark = "Eigen, " + path},
      {.name = "LibTorch",
       .command = has_libtorch ? beside("mlp_libtorch")
                               : "sh -c 'echo install libtorch-dev and libopenblas0-pthread, then "
                                 "configure again; exit 77'",
       .is_peer = true,
       .has_two_pools = true,
       .remark = has_libtorch ? SINTER_BENCH_TORCH : ""},
      python_peer("NumPy", "numpy_mlp.py", "numpy", ", scipy.special"),
      sklearn,
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
  const Printed printed = run_shell(command);
  if (WIFEXITED(printed.status) && WEXITSTATUS(printed.status) == skipped_status) {
    return {.skipped = printed.text};
  }
  const double rate = std::strtod(printed.text.c_str(), nullptr);
  sinter::check(printed.status == 0 && rate > 0, "failed, run it by hand to see why: ", command);
  return {.rate = rate};
}

}  // namespace bench
