#include "rules.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <regex>
#include <string_view>

namespace structure {
namespace {

namespace fs = std::filesystem;

struct Room {
  std::string_view name;                      // a folder; of two that match, the longer one counts
  std::vector<std::string_view> may_include;  // besides itself
};

const std::vector<Room> rooms{
    {"runtime", {}},
    {"kernels/math", {}},
    {"kernels", {"kernels/math", "runtime"}},
    {"autograd", {"kernels", "kernels/math", "runtime"}},
    {"layers", {"autograd", "kernels/math", "runtime"}},
    {"training", {"layers", "autograd", "kernels", "kernels/math", "runtime"}},
    {"examples",
     {"sinter.h", "training", "layers", "autograd", "kernels", "kernels/math", "runtime"}},
    {"sinter.h", {"training", "layers", "autograd", "kernels", "kernels/math", "runtime"}},
};

// Where a preprocessor condition may stand, and why.
constexpr std::array conditions_allowed{
    std::string_view{"kernels/cuda/unit.cuh"},  // instructions of the GPU being compiled for
    std::string_view{"kernels/math/hd.h"},      // the host/device macro
    std::string_view{"kernels/math/simd.h"},    // intrinsics of the copy being compiled
    std::string_view{"kernels/ops.cpp"},        // the op table
};

constexpr int longest_file = 400;

const std::regex include_line(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
const std::regex condition_line(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b)");
const std::regex cuda_header(
    R"(^(cuda|cublas|curand|cusolver|cusparse|cudnn|nccl|nvml|nvrtc|nvtx|vector_types|device_).*\.h(pp)?$|^(cuda|cub|thrust|cooperative_groups|nv|nvtx3|crt)(/|\.h$)|^mma\.h$)");
const std::regex library_header(
    R"(^(Eigen|unsupported|spdlog|fmt|nlohmann|CLI|doctest)/|^(zlib|omp)\.h$)");

// The room that a path belongs to, or nullptr.
const Room* room_of(std::string_view path) {
  const Room* found = nullptr;
  for (const Room& room : rooms) {
    const bool inside = path == room.name || (path.starts_with(room.name) &&
                                              path.substr(room.name.size()).starts_with('/'));
    if (inside && (found == nullptr || room.name.size() > found->name.size())) {
      found = &room;
    }
  }
  return found;
}

bool in_cuda_folder(std::string_view path) {
  return path.starts_with("cuda/") || path.find("/cuda/") != std::string_view::npos;
}

bool is_public_header(std::string_view path) {
  return path.ends_with(".h") && !path.starts_with("kernels/cpu/") && !in_cuda_folder(path);
}

std::string names(const std::vector<std::string_view>& list) {
  std::string joined;
  for (const std::string_view name : list) {
    joined += (joined.empty() ? "" : ", ") + std::string(name);
  }
  return joined.empty() ? "nothing" : joined;
}

// What is wrong with `#include <sinter/target>` in the file `path`; empty if nothing.
std::string wrong_arrow(std::string_view path, std::string_view target) {
  const Room* from = room_of(path);
  const Room* to = room_of(target);
  if (to == nullptr || to->name == "examples") {
    return "includes <sinter/" + std::string(target) + ">, which is in no room";
  }
  if (from == to) {
    return {};
  }
  if (std::ranges::find(from->may_include, to->name) == from->may_include.end()) {
    return "includes <sinter/" + std::string(target) + ">, but " + std::string(from->name) +
           " may include only itself and " + names(from->may_include);
  }
  const bool internal = target.starts_with("kernels/cpu/") || in_cuda_folder(target);
  if (internal && !(in_cuda_folder(path) && in_cuda_folder(target))) {
    return "includes <sinter/" + std::string(target) + ">, which is internal to " +
           std::string(to->name);
  }
  return {};
}

// What is wrong with an include of anything in the file `path`, which is in a room.
std::string wrong_include(std::string_view path, std::string_view header, bool quoted) {
  if (quoted) {
    return "includes \"" + std::string(header) + "\"; our headers are reached as <sinter/...>";
  }
  constexpr std::string_view ours = "sinter/";
  if (header.starts_with(ours)) {
    return wrong_arrow(path, header.substr(ours.size()));
  }
  const std::string text(header);
  if (std::regex_search(text, cuda_header) && !in_cuda_folder(path)) {
    return "includes <" + text + ">, but is in no folder named cuda";
  }
  if (std::regex_search(text, library_header) && is_public_header(path)) {
    return "is a public header and includes <" + text + ">";
  }
  return {};
}

void check_file(const fs::path& root, const std::string& path, Report& report) {
  ++report.files;
  std::ifstream file(root / path);
  std::string line;
  int number = 0;
  const auto complain = [&](const std::string& what) {
    report.complaints.push_back(path + ":" + std::to_string(number) + ": " + what);
  };
  if (!file) {
    complain("cannot be read");
  }
  const bool in_room = room_of(path) != nullptr;
  const bool conditions = std::ranges::find(conditions_allowed, path) != conditions_allowed.end();
  while (std::getline(file, line)) {
    ++number;
    std::smatch match;
    if (in_room && std::regex_search(line, match, include_line)) {
      const std::string header = match[2];
      if (const std::string wrong = wrong_include(path, header, match[1] == "\""); !wrong.empty()) {
        complain(wrong);
      }
    }
    if (in_room && !conditions && std::regex_search(line, condition_line)) {
      complain(
          "has a preprocessor condition; they stand in the op table and the host/device macro");
    }
  }
  if (number > longest_file) {
    complain("has " + std::to_string(number) + " lines, more than " + std::to_string(longest_file));
  }
  if ((path.ends_with(".cu") || path.ends_with(".cuh")) && in_room && !in_cuda_folder(path)) {
    number = 1;
    complain("is device code outside a folder named cuda");
  }
}

}  // namespace

Report check_tree(const fs::path& root) {
  std::vector<std::string> paths;
  const auto add = [&](const fs::path& path) {
    static constexpr std::array kinds{".h", ".cpp", ".cu", ".cuh"};
    if (std::ranges::find(kinds, path.extension().string()) != kinds.end()) {
      paths.push_back(path.lexically_relative(root).generic_string());
    }
  };
  for (const char* top : {"runtime", "kernels", "autograd", "layers", "training", "examples",
                          "tests", "benchmarks"}) {
    if (fs::is_directory(root / top)) {
      for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
        add(entry.path());
      }
    }
  }
  if (fs::exists(root / "sinter.h")) {
    add(root / "sinter.h");
  }
  std::ranges::sort(paths);
  Report report;
  for (const std::string& path : paths) {
    check_file(root, path, report);
  }
  return report;
}

}  // namespace structure
