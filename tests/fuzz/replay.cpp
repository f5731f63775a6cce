// Calls a target with every file of the folders and files named, for builds without libFuzzer.
#include <algorithm>
#include <iostream>
#include <vector>

#include "target.h"

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    std::cout << file.string() << std::endl;  // flushed: what comes next may end the program
    const std::string bytes = sinter::testing::read_bytes(file);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::cout << files.size() << " files\n";
  return files.empty() ? 1 : 0;
}
