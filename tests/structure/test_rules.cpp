// The source tree keeps its rules, and the check of each rule can fail.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "rules.h"
#include "shell.h"

namespace {

namespace fs = std::filesystem;

// One file in an otherwise empty tree, and what is to be said of it; nothing if `expected` is
// empty.
struct Planted {
  const char* path;
  std::string text;
  const char* expected;
};

structure::Report check_planted(const Planted& planted) {
  const structure::TemporaryFolder folder;
  fs::create_directories((folder.path() / planted.path).parent_path());
  std::ofstream(folder.path() / planted.path) << planted.text;
  return structure::check_tree(folder.path());
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "//\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the source tree keeps its rules") {
  const structure::Report report = structure::check_tree(SINTER_SOURCE_DIR);
  for (const std::string& complaint : report.complaints) {
    FAIL_CHECK(complaint);
  }
  for (const char* room :
       {"runtime", "kernels/math", "kernels/cpu", "autograd", "layers", "training", "examples"}) {
    CHECK_MESSAGE(fs::is_directory(fs::path(SINTER_SOURCE_DIR) / room), room);
  }
  CHECK(report.files > 50);  // a check that looks at nothing finds nothing
}

TEST_CASE("every rule can be broken") {
  const Planted broken[] = {
      {"runtime/a.h", "\n#include <sinter/kernels/dispatch.h>\n", "runtime/a.h:2: "},
      {"runtime/a.cpp", "#include <sinter/kernels/math/hd.h>\n", "runtime/a.cpp:1: "},
      {"kernels/math/a.h", "#include <sinter/runtime/tensor.h>\n", "only itself and nothing"},
      {"kernels/math/a.h", "#include <sinter/kernels/ops.h>\n", "kernels/math may include only"},
      {"kernels/a.cpp", "#include <sinter/autograd/tape.h>\n", "kernels may include only"},
      {"kernels/cpu/a.cpp", "#include <sinter/layers/linear.h>\n", "kernels may include only"},
      {"autograd/a.cpp", "#include <sinter/layers/module.h>\n", "autograd may include only"},
      {"autograd/a.cpp", "#include <sinter/kernels/cpu/ops.h>\n", "internal to kernels"},
      {"autograd/a.cpp", "#include <sinter/runtime/cuda/stream.h>\n", "internal to runtime"},
      {"layers/a.cpp", "#include <sinter/kernels/ops.h>\n", "layers may include only"},
      {"layers/a.h", "# include  <sinter/training/trainer.h>\n", "layers may include only"},
      {"training/a.cpp", "#include <sinter/sinter.h>\n", "training may include only"},
      {"examples/a.cpp", "#include <sinter/kernels/cpu/kernels.h>\n", "internal to kernels"},
      {"training/a.cpp", "#include <sinter/examples/a.h>\n", "in no room"},
      {"training/a.cpp", "#include <sinter/train/a.h>\n", "in no room"},
      {"layers/a.cpp", "#include \"linear.h\"\n", "reached as <sinter/...>"},
      {"kernels/a.cpp", "#include <cuda_runtime.h>\n", "no folder named cuda"},
      {"runtime/a.cpp", "#include <cublas_v2.h>\n", "no folder named cuda"},
      {"kernels/cpu/a.h", "#include <cuda/atomic>\n", "no folder named cuda"},
      {"kernels/a.cu", "int x;\n", "device code outside"},
      {"runtime/a.h", "#include <omp.h>\n", "public header"},
      {"runtime/a.h", "#include <spdlog/spdlog.h>\n", "public header"},
      {"kernels/a.h", "#include <Eigen/Core>\n", "public header"},
      {"training/a.h", "#include <nlohmann/json.hpp>\n", "public header"},
      {"training/a.h", "#include <zlib.h>\n", "public header"},
      {"sinter.h", "#include <CLI/CLI.hpp>\n", "public header"},
      {"runtime/a.cpp", "int a;\n#ifdef __CUDACC__\n#endif\n", "a.cpp:2: has a preprocessor"},
      {"layers/a.h", "  # if defined(X)\n#endif\n", "a.h:1: has a preprocessor"},
      {"tests/layers/a.cpp", lines(401), "401 lines"},
      {"examples/a.cpp", lines(401), "401 lines"},
  };
  for (const Planted& planted : broken) {
    CAPTURE(planted.path);
    CAPTURE(planted.expected);
    const structure::Report report = check_planted(planted);
    REQUIRE(report.complaints.size() == 1);
    CHECK(report.complaints.front().find(planted.expected) != std::string::npos);
  }
}

TEST_CASE("what the rules allow is let through") {
  const Planted kept[] = {
      {"kernels/a.h", "#include <sinter/kernels/math/hd.h>\n#include <sinter/runtime/a.h>\n", ""},
      {"kernels/ops.cpp", "#include <sinter/kernels/cuda/ops.h>\n#if defined(X)\n#endif\n", ""},
      {"kernels/math/hd.h", "#if defined(X)\n#endif\n", ""},
      {"kernels/cpu/isa/gemm.cpp", "#include <zlib.h>\n", ""},
      {"kernels/cuda/a.cu", "#include <cuda_fp16.h>\n#include <sinter/runtime/cuda/a.h>\n", ""},
      {"layers/a.cpp", "#include <sinter/kernels/math/activations.h>\n#include <vector>\n", ""},
      {"training/a.cpp", "#include <zlib.h>\n#include <sinter/kernels/ops.h>\n", ""},
      {"examples/a.cpp", "#include <sinter/sinter.h>\n#include <CLI/CLI.hpp>\n", ""},
      {"sinter.h", "#include <sinter/training/trainer.h>\n", ""},
      {"tests/layers/a.cpp", lines(400), ""},
  };
  for (const Planted& planted : kept) {
    const structure::Report report = check_planted(planted);
    CHECK(report.files == 1);
    for (const std::string& complaint : report.complaints) {
      FAIL_CHECK(complaint);
    }
  }
}
