// A model's weights to and from a file that torch reads and writes too.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <sinter/layers/module.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

/// Writes all parameters and buffers, in the type they are held in, as safetensors under the names
/// that torch's nn.Sequential of the same layers gives them: load_state_dict(strict=True) takes
/// them. load_model() takes the same file where the model is a Sequential of known layers.
void save_weights(Module& model, const std::filesystem::path& path);

/// Reads them back, from such a file or from a checkpoint. Throws Error, and changes nothing, where
/// names are missing or unexpected or shapes or types differ (a buffer takes any floating type),
/// all of which it lists, where a number is NaN, for a damaged checkpoint and for a newer version.
void load_weights(Module& model, const std::filesystem::path& path);

/// All parameters and buffers under the same names; the tensors share the model's elements.
std::map<std::string, Tensor> state_dict(Module& model);
/// Copies such tensors into the model. Throws Error, and changes nothing, as load_weights() does;
/// the sentence begins with `source`.
void load_state_dict(Module& model, const std::map<std::string, Tensor>& tensors,
                     const std::string& source = "state dict");
/// Throws what load_state_dict() would.
void check_state_dict(Module& model, const std::map<std::string, Tensor>& tensors,
                      const std::string& source = "state dict");

}  // namespace sinter
