// The file of measured launch shapes: what comes back from it, and that nothing done to it hurts.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "../layers/files.h"
#include "../runtime/child.h"
#include <sinter/kernels/tuning_cache.h>

namespace sinter {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

const std::string gpu = "NVIDIA H200, driver 13000, toolkit 13000, sinter 0.1.0";

std::string read(const fs::path& path) { return testing::read_bytes(path); }

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  testing::write_bytes(path, text);
}

std::string file_with(const std::string& shapes) {
  return R"({"format": 1, "devices": {")" + gpu + R"(": )" + shapes + "}}";
}

TEST_CASE("what one process stores the next one finds, for that device and kernel only") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "deep" / "er" / "autotune.json";
  {
    TuningCache cache(file);
    CHECK_FALSE(cache.find(gpu, "relu").has_value());
    CHECK_FALSE(fs::exists(file));  // looking makes nothing
    cache.store(gpu, "relu", 1);
    cache.store(gpu, "gelu", 0);
    CHECK(cache.find(gpu, "relu") == 1);
  }
  TuningCache next(file);
  CHECK(next.find(gpu, "relu") == 1);
  CHECK(next.find(gpu, "gelu") == 0);
  CHECK_FALSE(next.find(gpu, "mish").has_value());
  CHECK_FALSE(next.find("NVIDIA H200, driver 13010, toolkit 13000, sinter 0.1.0", "relu"));
  next.store(gpu, "relu", 0);  // changed
  CHECK(TuningCache(file).find(gpu, "relu") == 0);
  CHECK(TuningCache(file).find(gpu, "gelu") == 0);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(file.parent_path())) {
    ++files;
  }
  CHECK(files == 1);  // no temporary is left
}

TEST_CASE("the file is plain JSON, and one that was written by hand is taken") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "autotune.json";
  write(file, file_with(R"({"relu": 1})"));
  TuningCache cache(file);
  CHECK(cache.find(gpu, "relu") == 1);
  cache.store("another", "gelu", 1);
  CHECK(read(file) ==
        "{\n \"devices\": {\n  \"" + gpu +
            "\": {\n   \"relu\": 1\n  },\n  \"another\": {\n   \"gelu\": 1\n  }\n },\n"
            " \"format\": 1\n}\n");
}

TEST_CASE("names with odd characters come back") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "autotune.json";
  const std::vector<std::string> names{
      "",      " ",      "a\"b",    "back\\slash", "line\nbreak", "{}[],:", "\u00fc\u2713",
      "a/b~0", "format", "\x01\x7f"};
  TuningCache cache(file);
  int shape = 0;
  for (const std::string& name : names) {
    cache.store(name, name + "!", shape);
    shape = 1 - shape;
  }
  TuningCache next(file);
  shape = 0;
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(next.find(name, name + "!") == shape);
    shape = 1 - shape;
  }
  cache.store("not \xff\xc0 UTF-8", "relu", 1);  // found in this process, and the file stays whole
  CHECK(cache.find("not \xff\xc0 UTF-8", "relu") == 1);
  CHECK(TuningCache(file).find("a\"b", "a\"b!") == 0);
}

TEST_CASE("a damaged file is replaced with the next result") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "autotune.json";
  for (const std::string& damage :
       {std::string(), std::string("rubbish"), std::string("\0\xff\xfe", 3), std::string("[1, 2]"),
        std::string("null"), std::string("{}"), std::string(R"({"format": "1"})"),
        std::string(R"({"format": 1})"), std::string(R"({"format": 1, "devices": []})"),
        file_with("7"), file_with(R"({"relu": 2})"), file_with(R"({"relu": -1})"),
        file_with(R"({"relu": "1"})"), file_with(R"({"relu": 0.5})"),
        file_with(R"({"relu": true})"), file_with(R"({"relu": 18446744073709551615})"),
        file_with(R"({"relu": 1})").substr(0, 60), std::string(100000, '[')}) {
    CAPTURE(damage.substr(0, 80));
    write(file, damage);
    TuningCache cache(file);
    CHECK_FALSE(cache.find(gpu, "relu").has_value());
    CHECK(read(file) == damage);
    cache.store(gpu, "gelu", 1);
    CHECK(cache.find(gpu, "gelu") == 1);
    CHECK(TuningCache(file).find(gpu, "gelu") == 1);
  }
}

TEST_CASE("a file of another format is neither used nor changed") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "autotune.json";
  const std::string theirs = R"({"format": 2, "devices": {"x": {"relu": [1, 2, 3]}}})";
  write(file, theirs);
  TuningCache cache(file);
  CHECK_FALSE(cache.find("x", "relu").has_value());
  cache.store("x", "relu", 1);
  CHECK(cache.find("x", "relu") == 1);
  CHECK(read(file) == theirs);
}

TEST_CASE("where no file can be, choices last as long as the process") {
  const TemporaryFolder folder;
  write(folder.path() / "plain", "a file");
  fs::create_directories(folder.path() / "is_a_folder");
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  fs::create_symlink(folder.path() / "loop", folder.path() / "loop");
  for (const fs::path& file :
       {fs::path(), folder.path() / "plain" / "autotune.json", folder.path() / "is_a_folder",
        folder.path() / "pipe", folder.path() / "loop", fs::path("/proc/sinter/autotune.json"),
        folder.path() / std::string(300, 'x')}) {
    CAPTURE(file.string().substr(0, 80));
    TuningCache cache(file);
    CHECK_FALSE(cache.find(gpu, "relu").has_value());
    cache.store(gpu, "relu", 1);
    cache.store(gpu, "gelu", 0);
    CHECK(cache.find(gpu, "relu") == 1);
    CHECK(cache.find(gpu, "gelu") == 0);
    CHECK_FALSE(TuningCache(file).find(gpu, "relu").has_value());
  }
  CHECK(read(folder.path() / "plain") == "a file");
}

TEST_CASE("refresh looks at nothing old, and keeps what it did not measure") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "autotune.json";
  {
    TuningCache cache(file);
    cache.store(gpu, "relu", 1);
    cache.store(gpu, "gelu", 1);
  }
  TuningCache cache(file, true);
  CHECK_FALSE(cache.find(gpu, "relu").has_value());
  cache.store(gpu, "relu", 0);
  CHECK(cache.find(gpu, "relu") == 0);
  CHECK_FALSE(cache.find(gpu, "gelu").has_value());
  TuningCache next(file);
  CHECK(next.find(gpu, "relu") == 0);
  CHECK(next.find(gpu, "gelu") == 1);
}

TEST_CASE("processes and threads that write one file leave it whole") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "autotune.json";
  constexpr int processes = 4;
  constexpr int results = 40;
  std::vector<pid_t> children;
  for (int id = 0; id < processes; ++id) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      TuningCache cache(file);
      for (int i = 0; i < results; ++i) {
        cache.store("gpu " + std::to_string(id), "kernel " + std::to_string(i), i % 2);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  int torn = 0;  // whoever reads meanwhile sees a whole file
  const auto reader = [&] {
    const std::string text = read(file);
    torn += !text.empty() && !text.ends_with("\n \"format\": 1\n}\n");
  };
  for (const pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      reader();
    }
    CHECK(status == 0);
  }
  CHECK(torn == 0);
  // The last to finish wrote all of its own, and nothing of anybody's is wrong.
  TuningCache left(file);
  int most = 0;
  for (int id = 0; id < processes; ++id) {
    int found = 0;
    for (int i = 0; i < results; ++i) {
      const auto shape = left.find("gpu " + std::to_string(id), "kernel " + std::to_string(i));
      found += shape.has_value();
      CHECK(shape.value_or(i % 2) == i % 2);
    }
    most = std::max(most, found);
  }
  CHECK(most == results);

  TuningCache shared(file);
  std::vector<std::thread> threads;
  for (int id = 0; id < processes; ++id) {
    threads.emplace_back([&shared, id] {
      for (int i = 0; i < results; ++i) {
        shared.store("thread " + std::to_string(id), "kernel " + std::to_string(i), i % 2);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  TuningCache next(file);
  for (int id = 0; id < processes; ++id) {
    for (int i = 0; i < results; ++i) {
      CHECK(next.find("thread " + std::to_string(id), "kernel " + std::to_string(i)) == i % 2);
    }
  }
}

TEST_CASE("child: use the file of this environment" * doctest::skip()) {
  std::cout << "path: " << tuning_cache_path().string() << "." << std::endl;
  TuningCache cache(tuning_cache_path());
  CHECK_FALSE(cache.find(gpu, "relu").has_value());
  cache.store(gpu, "relu", 1);
  cache.store(gpu, "gelu", 1);
  CHECK(cache.find(gpu, "relu") == 1);
}

TEST_CASE("the file is in the user's cache folder, and a bad one costs one line in the log") {
  const char* child = "child: use the file of this environment";
  const TemporaryFolder folder;
  const std::string home = "XDG_CACHE_HOME='" + folder.path().string() + "'";
  const fs::path file = folder.path() / "sinter" / "autotune.json";
  const auto run = [child](const std::string& environment) {
    const ChildOutput out = run_child(environment, child);
    CAPTURE(out.text);
    CHECK(out.passed);
    return out;
  };
  ChildOutput out = run("SINTER_LOG=debug " + home);
  CHECK(out.says("path: " + file.string() + "."));
  CHECK(out.count("[sinter]") == 0);
  CHECK(fs::exists(file));

  write(file, "rubbish");
  out = run(home);
  CHECK(out.count("[sinter] warning: autotuning: " + file.string() + " is damaged") == 1);
  CHECK(out.count("[sinter]") == 1);

  write(file, R"({"format": 2})");
  CHECK(run(home).count("[sinter]") == 0);
  CHECK(run("SINTER_LOG=debug " + home).count("is not used: it was written by another version") ==
        1);

  for (const char* bad : {"/dev/null/x", "/proc/sinter"}) {
    const std::string nowhere = std::string("XDG_CACHE_HOME=") + bad;
    CHECK(run(nowhere).count("[sinter]") == 0);
    out = run("SINTER_LOG=debug " + nowhere);
    CHECK(out.count("is not used: ") == 1);
    CHECK(out.count("[sinter]") == 1);
  }
  for (const char* unset :
       {"XDG_CACHE_HOME=", "XDG_CACHE_HOME=relative", "env -u XDG_CACHE_HOME"}) {
    const TemporaryFolder user;
    out = run(std::string(unset) + " HOME='" + user.path().string() + "'");
    CHECK(out.says("path: " + (user.path() / ".cache/sinter/autotune.json").string() + "."));
  }
  CHECK(run("env -u XDG_CACHE_HOME -u HOME SINTER_LOG=debug").says("path: ."));
  CHECK(run("XDG_CACHE_HOME=a HOME=b").says("path: ."));
}

}  // namespace
}  // namespace sinter
