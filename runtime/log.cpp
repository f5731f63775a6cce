#include <cstdlib>
#include <memory>
#include <string>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <sinter/runtime/log.h>

namespace sinter::log {
namespace {

spdlog::level::level_enum level_from_environment() {
  const char* wanted = std::getenv("SINTER_LOG");
  if (wanted == nullptr || *wanted == '\0') {
    return spdlog::level::warn;
  }
  const std::string name = wanted;
  const auto level = spdlog::level::from_str(name);
  // from_str answers "off" for a name that it does not know, which would hide every warning.
  return level == spdlog::level::off && name != "off" ? spdlog::level::warn : level;
}

// A logger of our own, not in spdlog's registry: the consumer's set-up stays untouched by ours.
spdlog::logger& logger() {
  // Never destroyed: a static object of the program may log on its way out.
  static spdlog::logger& instance = *[] {
    auto* made =
        new spdlog::logger("sinter", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("[%n] %^%l%$: %v");
    made->set_level(level_from_environment());
    return made;
  }();
  return instance;
}

}  // namespace

void debug(std::string_view line) { logger().debug(line); }
void info(std::string_view line) { logger().info(line); }
void warn(std::string_view line) { logger().warn(line); }
void error(std::string_view line) { logger().error(line); }

}  // namespace sinter::log
