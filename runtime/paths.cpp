#include <system_error>

#include <sinter/runtime/error.h>
#include <sinter/runtime/paths.h>

namespace sinter {

std::filesystem::path full_path(const std::filesystem::path& path) {
  std::error_code failed;
  const auto full = std::filesystem::absolute(path.empty() ? "." : path, failed);
  check(!failed, "cannot tell the full path of '", path.string(), "': ", failed.message());
  const auto normal = full.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();  // no slash at the end
}

}  // namespace sinter
