// Results as a file that the reports read.
#pragma once

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <sinter/runtime/error.h>

namespace bench {

/// "2026-11-30", in UTC
inline std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// Throws sinter::Error where the file cannot be written.
inline void write_json_file(const std::filesystem::path& path, const nlohmann::ordered_json& all) {
  std::ofstream file(path);
  file << all.dump(1) << "\n";
  file.close();
  sinter::check(file.good(), "cannot write ", std::filesystem::absolute(path).string());
}

}  // namespace bench
