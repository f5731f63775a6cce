#pragma once

// Runs one test case of this very program in a process of its own: for what is read from the
// environment once, and for what is written to standard error. Such a test case is marked
// doctest::skip(), so that nobody runs it by accident.

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace sinter {

struct ChildOutput {
  bool passed = false;
  std::string text;  ///< of standard output and standard error

  bool says(std::string_view words) const { return text.find(words) != std::string::npos; }
  int count(std::string_view words) const {
    int found = 0;
    for (std::size_t at = text.find(words); at != std::string::npos;
         at = text.find(words, at + words.size())) {
      ++found;
    }
    return found;
  }
};

/// `environment` and `standard_error` as the shell takes them: "SINTER_LOG=debug".
inline ChildOutput run_child(const std::string& environment, const std::string& test_case,
                             const std::string& standard_error = "2>&1") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = environment + " '" + self + "' --no-skip --no-colors --test-case='" +
                              test_case + "' " + standard_error;
  ChildOutput out;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    out.text.append(buffer, n);
  }
  out.passed = ::pclose(pipe) == 0;
  return out;
}

}  // namespace sinter
