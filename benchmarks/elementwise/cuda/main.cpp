// Times activation and dropout on the GPU against a copy of the same bytes: every activation of the
// list, forward and backward. bench_elementwise --help says what can be chosen.
#include <cstdio>
#include <cuda_runtime_api.h>
#include <exception>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "../table.h"
#include "timings.h"
#include <sinter/kernels/autotune.h>
#include <sinter/kernels/ops.h>
#include <sinter/runtime/build_info.h>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/error.h>

using namespace sinter;

namespace {

struct Options {
  bench::Selection what{.only = {},
                        .tape = {"relu", "gelu", "mish"},
                        .dtypes = {DType::float32, DType::float16, DType::bfloat16},
                        .sizes = {std::int64_t{1} << 27, std::int64_t{1} << 22, 1 << 16},
                        .ps = {0, 0.1},
                        .rounds = 11};
  std::string json;
  bool quick = false;
  int shape = -1;
};

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    if (name == name_of(dtype)) {
      return dtype;
    }
  }
  throw Error("--dtypes takes float32, float16 and bfloat16, got " + name);
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bool found = false;
    math::for_each_activation([&]<class A>() { found = found || A::name == name; });
    check(found, "there is no activation \"", name, "\"");
  }
}

std::string device_name(Device device) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  return properties.name;
}

/// The clock of a GPU that was idle takes a while to rise.
void warm_up(const bench::Arena& arena) {
  const bench::Arena::Slices slices = arena.slices(bench::whole);
  Tensor to = slices.dx[0];
  for (int i = 0; i < 200; ++i) {
    to.copy_from(slices.x[0]);
  }
  synchronize(arena.device());
}

void time_size(const bench::Arena& arena, std::int64_t n, const bench::Selection& what,
               std::vector<bench::Result>& results) {
  const bench::Arena::Slices slices = arena.slices(n);
  math::for_each_activation([&]<class A>() {
    if (!what.only.empty() && !has(what.only, A::name)) {
      return;
    }
    const auto ops = bench::time_ops(arena, slices, A{}, what.ps, what.rounds);
    results.insert(results.end(), ops.begin(), ops.end());
    if (has(what.tape, A::name)) {
      for (const double p : what.ps) {
        results.push_back(
            bench::time_tape(arena, slices, A{}, p, what.rounds, ops.front().copy_us));
      }
    }
  });
  std::vector<double> ps = what.ps;
  std::erase(ps, 0.0);  // by itself it is then nothing
  if (what.only.empty() && !ps.empty()) {
    const auto alone = bench::time_dropout(arena, slices, ps, what.rounds);
    results.insert(results.end(), alone.begin(), alone.end());
  }
}

void run(const Options& options) {
  const Device device = Device::cuda();
  require_available(device);
  check(ops::activation_forward.cuda != nullptr && ops::activation_backward.cuda != nullptr,
        "this build has no CUDA kernels for activations");
  const bench::Selection& what = options.what;
  check_names(what.only);
  check_names(what.tape);
  for (const std::int64_t n : what.sizes) {
    check(n > 0 && n <= bench::whole, "--sizes takes 1 to ", bench::whole, " elements, got ", n);
  }
  for (const double p : what.ps) {
    check(p >= 0 && p <= 1, "--p takes probabilities in [0, 1], got ", p);
  }
  check(what.rounds > 0, "--rounds must be positive, got ", what.rounds);

  std::printf("%s on %s\nmedians of %d, each timed in turn with a copy\n", build_info().c_str(),
              device_name(device).c_str(), what.rounds);
  std::vector<bench::Result> results;
  for (const DType dtype : what.dtypes) {
    const bench::Arena arena(device, dtype);
    warm_up(arena);
    for (const std::int64_t n : what.sizes) {
      time_size(arena, n, what, results);
      const double us = results.back().copy_us;
      const double bytes = 2.0 * static_cast<double>(n * static_cast<std::int64_t>(size_of(dtype)));
      std::printf("copy of %lld elements of %s: %.2f us, %.2f TB/s\n", static_cast<long long>(n),
                  std::string(name_of(dtype)).c_str(), us, bytes / us / 1e6);
      std::fflush(stdout);
    }
  }
  bench::print_table(results);
  if (!options.json.empty()) {
    bench::write_json(options.json, device_name(device), what.rounds, results);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Times activation and dropout on the GPU against a copy of the same bytes."};
  std::vector<std::string> dtypes;
  app.add_option("--only", options.what.only, "activations, separated by commas")->delimiter(',');
  app.add_option("--tape", options.what.tape, "those also timed through the tape, or \"\"")
      ->delimiter(',')
      ->expected(0, -1)
      ->capture_default_str();
  app.add_option("--dtypes", dtypes, "of float32,float16,bfloat16")->delimiter(',');
  const auto* sizes = app.add_option("--sizes", options.what.sizes, "numbers of elements")
                          ->delimiter(',')
                          ->capture_default_str();
  const auto* ps = app.add_option("--p", options.what.ps, "dropout probabilities")
                       ->delimiter(',')
                       ->capture_default_str();
  const auto* rounds =
      app.add_option("--rounds", options.what.rounds, "medians of so many")->capture_default_str();
  app.add_option("--json", options.json, "also write the results to this file");
  app.add_option("--shape", options.shape, "0 or 1: one launch shape instead of the tuned one")
      ->check(CLI::Range(0, 1));
  app.add_flag("--quick", options.quick, "3 rounds, dropout 0.1, no 2^16");
  CLI11_PARSE(app, argc, argv);
  std::erase(options.what.tape, "");
  try {
    if (!dtypes.empty()) {
      options.what.dtypes.clear();
      for (const std::string& name : dtypes) {
        options.what.dtypes.push_back(parse_dtype(name));
      }
    }
    if (options.quick) {
      if (sizes->count() == 0) {
        options.what.sizes.pop_back();
      }
      if (ps->count() == 0) {
        options.what.ps = {0.1};
      }
      if (rounds->count() == 0) {
        options.what.rounds = 3;
      }
    }
    std::optional<ForcedShape> forced;
    if (options.shape >= 0) {
      forced.emplace(options.shape);
    }
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_elementwise: %s\n", error.what());
    return 1;
  }
}
