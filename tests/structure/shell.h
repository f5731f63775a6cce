// What the tests of this folder need of the outside: commands and a folder to put things.
#pragma once

#include <filesystem>
#include <string>

namespace structure {

struct Outcome {
  int status = 0;
  std::string output;  ///< both streams, as they came
};

/// Runs a command line through the shell.
Outcome run(const std::string& command);

/// 'text', safe in a command line.
std::string quoted(const std::string& text);

/// An empty folder that goes away with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace structure
