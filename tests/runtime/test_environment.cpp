// What the environment decides, once for a process: the CPU path, the threads and the log's level.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "child.h"
#include "sentence.h"
#include <sinter/runtime/cpu_path.h>
#include <sinter/runtime/log.h>
#include <sinter/runtime/parallel.h>

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

TEST_CASE("child: the threads" * doctest::skip()) {
  const int threads = num_threads();
  CHECK(num_threads() == threads);
  std::atomic<int> ran{0};
  parallel_pieces(1000, [&ran](std::int64_t) { ++ran; });
  CHECK(ran == 1000);
  set_num_threads(5);
  CHECK(num_threads() == 5);
  std::cout << "threads: " << threads << std::endl;
}

// Processors that this process, and so its child, may run on.
int processors() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  return CPU_COUNT(&set);
}

// main() asks for the number of threads before any test case; this comes before main().
const bool pinned_thread_asked_first = [] {
  bool pinned = false;
  if (std::getenv("SINTER_TEST_PINNED_THREAD_FIRST") != nullptr) {
    std::thread([&pinned] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(::sched_getcpu(), &set);
      pinned =
          ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0 && num_threads() >= 1;
    }).join();
  }
  return pinned;
}();

TEST_CASE("child: the threads, after a pinned one asked" * doctest::skip()) {
  CHECK(pinned_thread_asked_first);
  std::cout << "threads: " << num_threads() << std::endl;
}

TEST_CASE("a pinned thread that asks first does not decide for the process") {
  const std::string all = std::to_string(processors());
  for (const char* bind : {"", " OMP_PROC_BIND=true"}) {
    const ChildOutput out =
        run_child(std::string("env -u OMP_NUM_THREADS SINTER_TEST_PINNED_THREAD_FIRST=1") + bind,
                  "child: the threads, after a pinned one asked");
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.says("threads: " + all + "\n"));
  }
}

TEST_CASE("threads that OpenMP pins are as many as there are processors") {
  const ChildOutput out =
      run_child("env -u OMP_NUM_THREADS OMP_PROC_BIND=true", "child: the threads");
  CAPTURE(out.text);
  CHECK(out.passed);
  CHECK(out.says("threads: " + std::to_string(processors()) + "\n"));
}

TEST_CASE("an OMP_NUM_THREADS that is a number of threads is taken, and nothing is said") {
  const std::string all = std::to_string(processors());
  for (const std::string& value : std::vector<std::string>{"1", all, "1,4", " 1 "}) {
    CAPTURE(value);
    const ChildOutput out = run_child("OMP_NUM_THREADS='" + value + "'", "child: the threads");
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.says("threads: " + (value == all ? all : "1") + "\n"));
    CHECK_FALSE(out.says("[sinter]"));
  }
  for (const char* absent : {"env -u OMP_NUM_THREADS", "OMP_NUM_THREADS="}) {
    const ChildOutput out = run_child(absent, "child: the threads");
    CAPTURE(out.text);
    CHECK(out.says("threads: " + all + "\n"));
    CHECK_FALSE(out.says("[sinter]"));
  }
}

TEST_CASE("an OMP_NUM_THREADS that is none is named in the log once, with the number used") {
  const std::string all = std::to_string(processors());
  for (const std::string value : {"0", "-1", "rubbish", "2x", "1.5", ",2"}) {
    CAPTURE(value);
    const ChildOutput out = run_child("OMP_NUM_THREADS=" + value, "child: the threads");
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.says("threads: " + all + "\n"));
    CHECK(out.count("[sinter] warning: OMP_NUM_THREADS=" + value +
                    " is not a number of threads; using " + all + "\n") == 1);
    CHECK(out.count("[sinter]") == 1);
  }
}

TEST_CASE("an OMP_NUM_THREADS above the processors becomes their number, as the log says once") {
  const std::string all = std::to_string(processors());
  const std::string many = std::to_string(processors() + 62);
  for (const std::string& value :
       std::vector<std::string>{many, many + ",2", "99999999999999999999"}) {
    CAPTURE(value);
    const ChildOutput out = run_child("OMP_NUM_THREADS=" + value, "child: the threads");
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.says("threads: " + all + "\n"));
    CHECK(out.says("[sinter] warning: OMP_NUM_THREADS=" + value + ", but this process may run on " +
                   all + " processor"));
    CHECK(out.says("using " + all + " (set_num_threads() takes more)\n"));
    CHECK(out.count("[sinter]") == 1);
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
