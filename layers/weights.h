// A model's weights to and from a file that torch reads and writes too.
#pragma once

#include <filesystem>

#include <sinter/layers/module.h>

namespace sinter {

/// Writes all parameters and buffers, in the type they are held in, as safetensors under the names
/// that torch's nn.Sequential of the same layers gives them: load_state_dict(strict=True) takes
/// them.
void save_weights(Module& model, const std::filesystem::path& path);

/// Reads them back. Throws Error, and changes nothing, where names are missing or unexpected or
/// shapes or types differ (a buffer takes any floating type); it lists all of them.
void load_weights(Module& model, const std::filesystem::path& path);

}  // namespace sinter
