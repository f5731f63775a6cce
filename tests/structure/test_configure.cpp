// What configuring says about CUDA, with and without a toolkit. Each case configures the project
// anew in a folder of its own; nothing is built.
#include <cstddef>
#include <iostream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "shell.h"

namespace {

structure::Outcome configure(const std::string& flags) {
  const structure::TemporaryFolder folder;
  // NOTFOUND is what the search for nvcc ends with where there is none.
  return structure::run("unset CUDAARCHS; " + structure::quoted(SINTER_CMAKE) + " -S " +
                        structure::quoted(SINTER_SOURCE_DIR) + " -B " +
                        structure::quoted(folder.path().string()) + " -G " +
                        structure::quoted(SINTER_GENERATOR) +
                        " -DSINTER_TESTS=OFF -DSINTER_EXAMPLES=OFF " + flags);
}

const std::string no_nvcc = "-DCMAKE_CUDA_COMPILER=NOTFOUND ";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("without nvcc the build is for the CPU, and says so once") {
  const structure::Outcome configured = configure(no_nvcc);
  INFO(configured.output);
  CHECK(configured.status == 0);
  CHECK(count(configured.output, "CPU only, because") == 1);
  CHECK(count(configured.output, "no CUDA compiler (nvcc) was found") == 1);
  CHECK(count(configured.output, "Warning") == 0);
}

TEST_CASE("SINTER_CUDA=OFF is the reason that is given") {
  const structure::Outcome configured = configure("-DSINTER_CUDA=OFF");
  INFO(configured.output);
  CHECK(configured.status == 0);
  CHECK(count(configured.output, "CPU only, because SINTER_CUDA=OFF") == 1);
}

TEST_CASE("SINTER_CUDA=ON without nvcc stops in three lines") {
  const structure::Outcome configured = configure(no_nvcc + "-DSINTER_CUDA=ON");
  INFO(configured.output);
  CHECK(configured.status != 0);
  std::istringstream output(configured.output);
  std::string line;
  while (std::getline(output, line) && line.find("CMake Error") == std::string::npos) {
  }
  int lines = 0;
  while (std::getline(output, line) && line.find("Call Stack") == std::string::npos) {
    lines += line.find_first_not_of(' ') != std::string::npos ? 1 : 0;
  }
  CHECK(lines == 3);
  CHECK(count(configured.output, "SINTER_CUDA=ON, but no CUDA compiler (nvcc) was found.") == 1);
  CHECK(count(configured.output, "-DSINTER_CUDA=OFF") == 1);
}

TEST_CASE("a misspelt SINTER_CUDA is refused") {
  const structure::Outcome configured = configure("-DSINTER_CUDA=maybe");
  CHECK(configured.status != 0);
  CHECK(count(configured.output, "expected AUTO, ON or OFF") == 1);
}

TEST_CASE("with nvcc, GPU or not, the architectures are a fixed list or the caller's") {
  const structure::Outcome usual = configure("");
  INFO(usual.output);
  REQUIRE(usual.status == 0);
  if (count(usual.output, "CPU only, because") != 0) {
    std::cout << "SKIPPED (no CUDA toolkit)" << std::endl;
    return;
  }
  CHECK(count(usual.output, "75-real,80-real,90-real,90-virtual") == 1);
  const structure::Outcome chosen =
      configure("-DSINTER_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES='75;90'");
  INFO(chosen.output);
  CHECK(chosen.status == 0);
  CHECK(count(chosen.output, "for 75,90\n") == 1);
}
