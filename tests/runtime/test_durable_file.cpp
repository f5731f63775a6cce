// A file is there as a whole or as it was, also where the disk is full or two write at once.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/durable_file.h>

namespace sinter {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "sinter_durable_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }
  fs::path path;
};

void write(const fs::path& path, const std::string& bytes) {
  DurableFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The system refuses to make files longer than this, as a full disk would.
struct SmallDisk {
  explicit SmallDisk(::rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &limit);
    handler = std::signal(SIGXFSZ, SIG_IGN);
    const ::rlimit small{bytes, limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, handler);
  }
  ::rlimit limit{};
  void (*handler)(int) = nullptr;
};

TEST_CASE("the old file is there until the new one is complete") {
  const Folder folder;
  const fs::path path = folder.path / "file";
  write(path, "old");
  {
    DurableFile file(path);
    file.write("new and longer", 14);
    CHECK(read(path) == "old");
    CHECK(folder.files() == 2);
  }
  CHECK(read(path) == "old");  // it was given up
  CHECK(folder.files() == 1);
  write(path, "");
  CHECK(read(path) == "");
}

TEST_CASE("what a killed process left is overwritten, however long it is") {
  const Folder folder;
  std::ofstream(folder.path / "file.sinter.tmp") << std::string(100, 'x');
  write(folder.path / "file", "short");
  CHECK(read(folder.path / "file") == "short");
  CHECK(folder.files() == 1);
}

TEST_CASE("a full disk leaves the old file, and nothing beside it") {
  const Folder folder;
  const fs::path path = folder.path / "file";
  write(path, "old");
  {
    const SmallDisk disk(1000);
    check_refused([&] { write(path, std::string(5000, 'x')); },
                  {"cannot write " + path.string(), "File too large"});
  }
  CHECK(read(path) == "old");
  CHECK(folder.files() == 1);
  check_refused([&] { write(folder.path / "none" / "file", "x"); },
                {"cannot write", "none/file: No such file or directory"});
  check_refused([&] { write("/dev/full", "x"); }, {"cannot write /dev/full", "no regular file"});
  check_refused([&] { write(folder.path / std::string(250, 'n'), "x"); }, {"File name too long"});
  check_refused([&] { write("/proc/file", "x"); }, {"cannot write /proc/file"});
}

TEST_CASE("of many that write to one path at once, each writes a file of its own") {
  const Folder folder;
  const fs::path path = folder.path / "file";
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'i'; ++letter) {
    threads.emplace_back([&path, letter] {
      for (int i = 0; i < 20; ++i) {
        DurableFile file(path);
        const std::string half(static_cast<std::size_t>(letter - 'a' + 1) * 100, letter);
        file.write(half.data(), half.size());
        file.write(half.data(), half.size());
        file.commit();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string left = read(path);
  REQUIRE_FALSE(left.empty());
  CHECK(left == std::string(static_cast<std::size_t>(left[0] - 'a' + 1) * 200, left[0]));
  CHECK(folder.files() == 1);
}

TEST_CASE("a link takes the place of a file, and follows no later change of the other") {
  const Folder folder;
  const fs::path a = folder.path / "a", b = folder.path / "b";
  write(a, "one");
  write(b, "other");
  std::ofstream(folder.path / "b.sinter.link") << "of a killed process";
  link_durably(a, b);
  CHECK(read(b) == "one");
  link_durably(a, b);
  write(a, "two");
  CHECK(read(b) == "one");
  CHECK(folder.files() == 2);
  check_refused([&] { link_durably(folder.path / "none", b); }, {"b", "none"});
  CHECK(read(b) == "one");
}

}  // namespace
}  // namespace sinter
