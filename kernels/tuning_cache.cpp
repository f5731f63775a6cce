#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include <sinter/kernels/tuning_cache.h>
#include <sinter/runtime/log.h>
#include <sinter/runtime/text.h>

namespace sinter {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int format = 1;

// Of another format there may be more to know than this version does, so it is left as it is.
enum class Content { ours, corrupt, foreign };

Content parse(const std::string& text, std::map<std::string, std::map<std::string, int>>& shapes) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object() || !root.contains("format") || !root["format"].is_number_integer()) {
    return Content::corrupt;
  }
  if (root["format"] != format) {
    return Content::foreign;
  }
  if (!root.contains("devices") || !root["devices"].is_object()) {
    return Content::corrupt;
  }
  for (const auto& [device, kernels] : root["devices"].items()) {
    if (!kernels.is_object()) {
      return Content::corrupt;
    }
    for (const auto& [kernel, shape] : kernels.items()) {
      if (!shape.is_number_integer() || (shape != 0 && shape != 1)) {
        return Content::corrupt;
      }
      shapes[device][kernel] = shape.get<int>();
    }
  }
  return Content::ours;
}

template <class Maps>
void merge(Maps& into, const Maps& from) {
  for (const auto& [device, kernels] : from) {
    for (const auto& [kernel, shape] : kernels) {
      into[device][kernel] = shape;
    }
  }
}

}  // namespace

TuningCache::TuningCache(fs::path file, bool refresh) : file_(std::move(file)), read_(refresh) {}

std::optional<int> TuningCache::find(const std::string& device, const std::string& kernel) {
  const std::scoped_lock lock(mutex_);
  if (!std::exchange(read_, true)) {
    known_ = read();
    merge(known_, stored_);
  }
  const auto kernels = known_.find(device);
  if (kernels != known_.end()) {
    if (const auto shape = kernels->second.find(kernel); shape != kernels->second.end()) {
      return shape->second;
    }
  }
  return std::nullopt;
}

void TuningCache::store(const std::string& device, const std::string& kernel, int shape) {
  const std::scoped_lock lock(mutex_);
  known_[device][kernel] = shape;
  stored_[device][kernel] = shape;
  Shapes all = read();
  merge(all, stored_);
  if (!file_.empty()) {
    write(all);
  }
}

TuningCache::Shapes TuningCache::read() {
  Shapes shapes;
  std::error_code ignored;
  if (file_.empty() || fs::status(file_, ignored).type() == fs::file_type::not_found) {
    return shapes;
  }
  std::ifstream in;
  if (fs::is_regular_file(file_, ignored)) {  // opening a pipe would wait for a writer
    in.open(file_, std::ios::binary);
  }
  if (!in.is_open()) {
    give_up("it cannot be read");
    return shapes;
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  switch (parse(text, shapes)) {
    case Content::ours:
      return shapes;
    case Content::foreign:
      give_up("it was written by another version");
      break;
    case Content::corrupt:
      if (!std::exchange(said_corrupt_, true)) {
        log::warn(sinter::text("autotuning: ", file_.string(),
                               " is damaged; its choices are measured anew"));
      }
      break;
  }
  return {};
}

void TuningCache::write(const Shapes& shapes) {
  std::error_code failed;
  fs::create_directories(file_.parent_path(), failed);
  std::string temporary = file_.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) {
    return give_up(std::error_code(errno, std::generic_category()).message());
  }
  ::close(descriptor);
  std::ofstream out(temporary, std::ios::binary);
  out << Json{{"format", format}, {"devices", shapes}}.dump(1, ' ', true,
                                                            Json::error_handler_t::replace)
      << '\n';
  out.close();
  if (out.good()) {
    fs::rename(temporary, file_, failed);
  }
  if (!out.good() || failed) {
    give_up(failed ? failed.message() : "it cannot be written");
    fs::remove(temporary, failed);
  }
}

// The choices are then kept for this process only.
void TuningCache::give_up(const std::string& why) {
  log::debug(text("autotuning: ", file_.string(), " is not used: ", why));
  file_.clear();
}

fs::path tuning_cache_path() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    const fs::path path = value == nullptr ? "" : value;
    return path.is_absolute() ? path : fs::path{};
  };
  fs::path cache = folder("XDG_CACHE_HOME");
  if (cache.empty() && !folder("HOME").empty()) {
    cache = folder("HOME") / ".cache";
  }
  return cache.empty() ? cache : cache / "sinter" / "autotune.json";
}

}  // namespace sinter
