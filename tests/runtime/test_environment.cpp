// What the environment decides, once for a process: the CPU path and the log's level.

#include <iostream>
#include <string>

#include <doctest/doctest.h>

#include "child.h"
#include "sentence.h"
#include <sinter/runtime/cpu_path.h>
#include <sinter/runtime/log.h>

namespace sinter {
namespace {

constexpr CpuPath paths[] = {CpuPath::baseline, CpuPath::avx2, CpuPath::avx512};

TEST_CASE("the paths have names, and the plain one is always there") {
  CHECK(name_of(CpuPath::baseline) == "baseline");
  CHECK(name_of(CpuPath::avx2) == "avx2");
  CHECK(name_of(CpuPath::avx512) == "avx512");
  CHECK(is_available(CpuPath::baseline));
  CHECK((!is_available(CpuPath::avx512) || is_available(CpuPath::avx2)));
  CHECK(is_available(cpu_path()));
}

TEST_CASE("child: the CPU path" * doctest::skip()) {
  std::string path;
  const std::string refused = sentence_of([&path] { path = name_of(cpu_path()); });
  std::cout << "path: " << path << "; said: " << refused << std::endl;
  // A second time is no different.
  CHECK(sentence_of([&path] { path = name_of(cpu_path()); }) == refused);
}

TEST_CASE("SINTER_CPU forces a path, or says that it cannot") {
  for (const CpuPath path : paths) {
    const std::string name(name_of(path));
    CAPTURE(name);
    const ChildOutput out = run_child("SINTER_CPU=" + name, "child: the CPU path");
    CAPTURE(out.text);
    CHECK(out.passed);
    if (is_available(path)) {
      CHECK(out.says("path: " + name + "; said: <nothing thrown>"));
      CHECK(out.says("CPU path: " + name + ","));
    } else {
      CHECK(out.says("said: SINTER_CPU=" + name + ": this processor or this build cannot run"));
    }
  }
}

TEST_CASE("without SINTER_CPU the widest path is taken") {
  CpuPath widest = CpuPath::baseline;
  for (const CpuPath path : paths) {
    widest = is_available(path) ? path : widest;
  }
  const std::string wanted = "path: " + std::string(name_of(widest)) + ";";
  CHECK(run_child("SINTER_CPU=", "child: the CPU path").says(wanted));
  CHECK(run_child("env -u SINTER_CPU", "child: the CPU path").says(wanted));
}

TEST_CASE(
    "an unknown SINTER_CPU is an error that names the known ones, and build_info survives it") {
  for (const char* rubbish : {"avx", "AVX2", "avx2 "}) {
    const ChildOutput out =
        run_child(std::string("SINTER_CPU='") + rubbish + "'", "child: the CPU path");
    CAPTURE(out.text);
    CHECK(out.passed);
    const std::string sentence =
        std::string("SINTER_CPU=") + rubbish + " is unknown: expected baseline, avx2 or avx512";
    CHECK(out.says("said: " + sentence));
    CHECK(out.says("CPU path: " + sentence));  // main() prints build_info first
  }
}

TEST_CASE("child: one line of each level" * doctest::skip()) {
  log::debug("line for debug");
  log::info("line for info");
  log::warn("line for warn {}");
  log::error("line for error %s");
}

TEST_CASE("the log shows warnings and errors, or what SINTER_LOG says") {
  struct Row {
    const char* environment;
    int lines;
  };
  for (const Row row :
       {Row{"env -u SINTER_LOG", 2}, Row{"SINTER_LOG=", 2}, Row{"SINTER_LOG=debug", 4},
        Row{"SINTER_LOG=info", 3}, Row{"SINTER_LOG=warn", 2}, Row{"SINTER_LOG=error", 1},
        Row{"SINTER_LOG=off", 0}, Row{"SINTER_LOG=rubbish", 2}}) {
    const ChildOutput out = run_child(row.environment, "child: one line of each level");
    CAPTURE(row.environment);
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.count("[sinter]") == row.lines);
    CHECK(out.says("[sinter] error: line for error %s\n") == (row.lines >= 1));
    CHECK(out.says("[sinter] warning: line for warn {}\n") == (row.lines >= 2));
    CHECK(out.says("[sinter] info: line for info\n") == (row.lines >= 3));
    CHECK(out.says("[sinter] debug: line for debug\n") == (row.lines >= 4));
  }
}

TEST_CASE("the log writes to standard error only") {
  const ChildOutput out =
      run_child("SINTER_LOG=debug", "child: one line of each level", "2>/dev/null");
  CHECK(out.passed);
  CHECK_FALSE(out.says("line for"));
}

}  // namespace
}  // namespace sinter
