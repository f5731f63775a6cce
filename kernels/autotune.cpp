#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sinter/kernels/autotune.h>
#include <sinter/kernels/tuning_cache.h>
#include <sinter/runtime/backend.h>
#include <sinter/runtime/build_info.h>
#include <sinter/runtime/event.h>
#include <sinter/runtime/log.h>
#include <sinter/runtime/text.h>

namespace sinter {
namespace {

enum class Mode { off, on, refresh };

Mode mode_from_environment() {
  const char* value = std::getenv("SINTER_AUTOTUNE");
  const std::string wanted = value == nullptr ? "" : value;
  if (wanted == "off") {
    return Mode::off;
  }
  if (wanted == "refresh") {
    return Mode::refresh;
  }
  if (!wanted.empty() && wanted != "on") {
    log::warn(
        text("SINTER_AUTOTUNE=", wanted, " is unknown: expected off, on or refresh; using on"));
  }
  return Mode::on;
}

Mode mode() {
  static const Mode chosen = mode_from_environment();
  return chosen;
}

// Never destroyed: a static object of the program may compute on its way out.
TuningCache& cache() {
  static auto& instance = *new TuningCache(tuning_cache_path(), mode() == Mode::refresh);
  return instance;
}

std::string describe(Device device) {
  const Backend& row = backend(device.type);
  return text(row.name(device.index), ", ", row.versions(), ", sinter ", version());
}

// The shapes take turns, so that clocks and caches that change meanwhile change for both, and the
// device always has the next launch waiting. The best of each: whatever disturbs only adds.
std::array<double, 2> time_shapes(Device device, LaunchRef launch) {
  constexpr std::size_t turns = 2 * 7;
  std::vector<Event> marks;
  for (std::size_t i = 0; i <= turns; ++i) {
    marks.emplace_back(device);
  }
  launch(0);
  launch(1);
  marks[0].record();
  for (std::size_t turn = 0; turn < turns; ++turn) {
    launch(static_cast<int>(turn % 2));
    marks[turn + 1].record();
  }
  std::array<double, 2> best;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const double taken = marks[turn + 1].milliseconds_since(marks[turn]);
    double& before = best[turn % 2];
    before = turn < 2 ? taken : std::min(before, taken);
  }
  return best;
}

}  // namespace

constinit std::atomic<int> LaunchChoice::forced_shape{-1};

int LaunchChoice::find(Device device, int size_class, std::initializer_list<std::string_view> name,
                       int default_shape, bool repeatable, LaunchRef launch) {
  // One kernel at a time, or two threads would time each other.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::atomic<std::uint8_t>& known = known_[device.index][size_class];
  const auto keep = [&known](int shape) {
    known = static_cast<std::uint8_t>(shape_0 + shape);
    return shape;
  };
  if (known >= shape_0) {
    return known - shape_0;
  }
  if (mode() == Mode::off) {
    return keep(default_shape);
  }
  std::string kernel;
  for (const std::string_view word : name) {
    kernel += word;
    kernel += word.empty() ? "" : " ";
  }
  constexpr const char* sizes[] = {"2^24", "2^25", "2^26"};
  kernel += text("from ", sizes[size_class]);
  const std::string where = describe(device);
  if (const std::optional<int> stored = cache().find(where, kernel)) {
    return keep(*stored);
  }
  if (!repeatable) {
    known = not_stored;
    return default_shape;
  }
  const std::array<double, 2> best = time_shapes(device, launch);
  const int shape = detail::faster_shape(best, default_shape);
  log::debug(text("autotuning: ", kernel, ": shape ", shape, " on ", device, " (", best[0], " and ",
                  best[1], " ms)"));
  cache().store(where, kernel, shape);
  return keep(shape);
}

int detail::faster_shape(const std::array<double, 2>& best, int default_shape) {
  const int other = 1 - default_shape;
  return best[other] < 0.98 * best[default_shape] ? other : default_shape;
}

}  // namespace sinter
