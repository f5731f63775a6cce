#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <sinter/runtime/durable_file.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/paths.h>

namespace sinter {
namespace {

bool is_same_file(int file, const std::filesystem::path& path) {
  struct ::stat open {
  }, named{};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

// Where there are no locks, it goes on without.
void lock(int file) {
  int locked = 0;
  do {
    locked = ::flock(file, LOCK_EX);
  } while (locked != 0 && errno == EINTR);
}

// The name of a file is on the disk when its folder is. Some file systems know no such thing.
int sync_folder(const std::filesystem::path& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) {
    return errno == EACCES ? 0 : errno;  // one may write to a folder that one may not read
  }
  const int error = ::fsync(opened) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  ::close(opened);
  return error;
}

}  // namespace

std::filesystem::path followed_path(const std::filesystem::path& path) {
  std::error_code unresolved;
  const auto resolved = std::filesystem::weakly_canonical(full_path(path), unresolved);
  return unresolved ? full_path(path) : resolved;
}

DurableFile::DurableFile(const std::filesystem::path& path) : path_(followed_path(path)) {
  std::error_code ignored;
  check(
      !std::filesystem::exists(path_, ignored) || std::filesystem::is_regular_file(path_, ignored),
      "cannot write ", path_.string(), ": it is there and no regular file");
  temporary_ = path_;
  temporary_ += ".sinter.tmp";
  open();
}

DurableFile::~DurableFile() { discard(); }

FolderLock::FolderLock(const std::filesystem::path& folder)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  lock(folder_);
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) {
    ::close(folder_);
  }
}

// The lock is on the file, and a process that waited for it may hold one that was renamed since.
void DurableFile::open() {
  do {
    if (file_ >= 0) {
      ::close(file_);
    }
    file_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (file_ < 0) {
      fail(errno);
    }
    lock(file_);
  } while (!is_same_file(file_, temporary_));
  if (::ftruncate(file_, 0) != 0) {
    const int error = errno;
    discard();
    fail(error);
  }
}

void DurableFile::discard() {
  if (file_ >= 0) {
    ::unlink(temporary_.c_str());
    ::close(file_);
    file_ = -1;
  }
}

void DurableFile::fail(int error) const {
  throw Error(text("cannot write ", path_.string(), ": ",
                   std::error_code(error, std::generic_category()).message()));
}

void DurableFile::write(const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ::ssize_t written = ::write(file_, at, count);
    if (written > 0) {
      at += written;
      count -= static_cast<std::size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      const int error = written == 0 ? ENOSPC : errno;
      discard();
      fail(error);
    }
  }
}

void DurableFile::commit() {
  if (::fsync(file_) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    discard();
    fail(error);
  }
  ::close(file_);
  file_ = -1;
  if (const int error = sync_folder(path_.parent_path())) {
    fail(error);
  }
}

namespace {

void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream in(from, std::ios::binary);
  DurableFile out(to);
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    out.write(piece.data(), static_cast<std::size_t>(in.gcount()));
  }
  check(in.eof() && !in.bad(), "cannot write ", to.string(), ": ", from.string(),
        " could not be read");
  out.commit();
}

}  // namespace

void link_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::path beside = to;
  beside += ".sinter.link";
  ::unlink(beside.c_str());  // of a process that was killed here
  // Of the file itself, where `from` is a link to it.
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, beside.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    copy_durably(from, to);
    return;
  }
  int error = ::rename(beside.c_str(), to.c_str()) == 0 ? 0 : errno;
  ::unlink(beside.c_str());  // still there where both were one file already
  error = error != 0 ? error : sync_folder(to.parent_path());
  check(error == 0, "cannot write ", to.string(), ": ",
        std::error_code(error, std::generic_category()).message());
}

}  // namespace sinter
