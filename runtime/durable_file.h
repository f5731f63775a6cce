// A file that is there as a whole or not at all, whatever happens while it is written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace sinter {

/// Bytes go to "<path>.sinter.tmp" in the same folder; commit() brings them to the disk and renames
/// the file, so a crash at any moment leaves the old file or the new one. What a killed process
/// left under the temporary name is overwritten by the next; processes that write to one path at
/// the same time wait for each other. Links are followed.
class DurableFile {
 public:
  /// Throws Error where the file cannot be made, or `path` is there and no regular file.
  explicit DurableFile(const std::filesystem::path& path);
  /// Removes what was not committed.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  /// Throws Error where the disk does not take them.
  void write(const void* bytes, std::size_t count);
  /// Throws Error where the file, or the folder with its name, does not reach the disk.
  void commit();
  /// In full, links followed.
  const std::filesystem::path& path() const { return path_; }

 private:
  void open();
  void discard();
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int file_ = -1;
};

/// While it lives, others that make one of these for the same folder wait, in this process or
/// another; where a file system has no locks it does nothing.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

/// Makes `to` the same file as `from` (a copy where there are no hard links), in place of what it
/// was. Throws Error where that cannot be done.
void link_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// `path` in full, with links followed as far as there is something.
std::filesystem::path followed_path(const std::filesystem::path& path);

}  // namespace sinter
