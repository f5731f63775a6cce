// What test_threads.cpp runs.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter {

using Results = std::vector<Tensor>;
/// Runs of ops, by the op's name.
using NamedRuns = std::vector<std::pair<std::string, std::function<Results()>>>;

}  // namespace sinter
