// What the targets share: each is libFuzzer's LLVMFuzzerTestOneInput, and anything but a result or
// an Error (another exception, a broken promise, what a sanitizer finds) ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "../layers/files.h"
#include <sinter/runtime/error.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sinter::fuzz {

/// Ends the program, as a finding, unless `holds`.
inline void promise(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
  }
}

/// What `call` returns, or nothing where it throws Error, whose sentence must not be empty.
template <class Call>
auto unless_refused(Call&& call) -> std::optional<decltype(call())> {
  try {
    return call();
  } catch (const Error& error) {
    promise(!std::string_view(error.what()).empty(), "an Error says what is wrong");
    return std::nullopt;
  }
}

/// A file of that name in a folder that goes with the program.
inline std::filesystem::path scratch(const char* name) {
  static const testing::TemporaryFolder folder;
  return folder / name;
}

/// The same with these bytes in it.
inline std::filesystem::path scratch(const char* name, std::string_view bytes) {
  std::filesystem::path path = scratch(name);
  testing::write_bytes(path, std::string(bytes));
  return path;
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace sinter::fuzz
