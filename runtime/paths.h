// How files are named in messages: in full, so that a reader need not guess the current directory.
#pragma once

#include <filesystem>

namespace sinter {

/// `path` from the root, without "." and ".."; an empty one is the current directory. Links are not
/// followed and nothing needs to exist. Throws Error where the current directory is gone.
std::filesystem::path full_path(const std::filesystem::path& path);

}  // namespace sinter
