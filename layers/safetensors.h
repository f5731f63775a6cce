// The safetensors file format: named tensors behind a JSON header, little-endian.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <sinter/runtime/tensor.h>

namespace sinter {

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads every tensor of the file, on the CPU. Every size is checked against the file before memory
/// is taken for it; Error names the file's absolute path, what was expected and what was found.
TensorFile read_safetensors(const std::filesystem::path& path);

/// Writes the file under a temporary name, brings it to the disk and renames it, so that `path` is
/// never half written: see DurableFile.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

}  // namespace sinter
