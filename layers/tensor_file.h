// The files of tensors that this library writes, weights and checkpoints: of which version they
// are, whether they are undamaged, and the model in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <sinter/layers/safetensors.h>

namespace sinter {

/// The metadata "format" and "version" of what is written: the newest that can be read.
inline constexpr std::string_view checkpoint_format = "sinter checkpoint";
inline constexpr std::string_view weights_format = "sinter model";
inline constexpr int newest_version = 1;
/// What the names of the model's tensors begin with in a checkpoint.
inline constexpr std::string_view model_prefix = "model.";

/// The metadata under `key`, or "".
std::string metadata_value(const TensorFile& file, const std::string& key);

/// Over all names, texts and bytes but the metadata "checksum", as docs/checkpoints.md says it.
std::string checksum(const TensorFile& file);

/// The model's tensors in a checkpoint, under the model's names.
std::map<std::string, Tensor> model_tensors(const TensorFile& checkpoint);

enum class Refused : std::uint8_t { nan, nan_and_infinity };
/// The name of the first tensor with such a number, or null.
const std::string* first_with(Refused numbers, const std::map<std::string, Tensor>& tensors);

/// Throws Error for a file that is no checkpoint, from a newer version, or damaged.
TensorFile read_checkpoint(const std::filesystem::path& path);

struct StoredModel {
  std::string source;  ///< what a sentence about it begins with: the kind of file and its path
  std::string text;    ///< of the model, or ""
  std::map<std::string, Tensor> tensors;
};

/// The model in a file of weights, of other programs too, or in a checkpoint. Throws Error for one
/// from a newer version, a damaged checkpoint, or a NaN.
StoredModel read_model(const std::filesystem::path& path);

}  // namespace sinter
