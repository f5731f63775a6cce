// What bench_elementwise prints and writes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cases.h"

namespace bench {

/// For each p what went through the tape, then one line an activation: forward/backward of each
/// size and type in % of a copy, and the smallest of each size.
void print_table(const std::vector<Result>& results);

/// All results, with where and how they were made. Throws Error where the file cannot be written.
void write_json(const std::filesystem::path& path, const std::string& device, int rounds,
                const std::vector<Result>& results);

}  // namespace bench
