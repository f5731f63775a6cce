// Measured choices between kernels' launch shapes, kept in a file of the user's cache folder. The
// file is a convenience: whatever is wrong with it costs one line in the log and nothing else.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace sinter {

/// Shapes (0 or 1) by device and kernel. Any thread may use it, and any number of processes one
/// file: each writes a new file with what it finds merged with its own, and puts it in the place of
/// the old one, so a reader sees a whole file. Nothing here
/// throws, short of memory running out.
class TuningCache {
 public:
  /// No file is touched yet; an empty path stands for none. With `refresh`, what the file has is
  /// not looked at, but kept for other devices and kernels.
  explicit TuningCache(std::filesystem::path file, bool refresh = false);

  std::optional<int> find(const std::string& device, const std::string& kernel);
  void store(const std::string& device, const std::string& kernel, int shape);

 private:
  using Shapes = std::map<std::string, std::map<std::string, int>>;

  Shapes read();
  void write(const Shapes& shapes);
  void give_up(const std::string& why);

  std::mutex mutex_;
  std::filesystem::path file_;
  bool read_ = false;  ///< whether known_ has what the file had
  bool said_corrupt_ = false;
  Shapes known_;
  Shapes stored_;  ///< by this process
};

/// $XDG_CACHE_HOME/sinter/autotune.json, or the same in ~/.cache; empty where neither variable
/// names a folder in full.
std::filesystem::path tuning_cache_path();

}  // namespace sinter
