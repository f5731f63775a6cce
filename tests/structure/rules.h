// The rules of the source tree that a compiler does not enforce: which room may include which, what
// public headers may include, where preprocessor conditions may stand, how long a file may be.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace structure {

struct Report {
  int files = 0;                        ///< looked at
  std::vector<std::string> complaints;  ///< "layers/linear.cpp:12: ...", in the order of paths
};

/// Reads every source file of the rooms, the examples, the tests and the benchmarks under `root`.
Report check_tree(const std::filesystem::path& root);

}  // namespace structure
