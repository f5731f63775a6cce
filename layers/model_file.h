// A whole model from its file alone.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <sinter/layers/sequential.h>

namespace sinter {

/// The model that save_weights() or save_checkpoint() wrote: layers, weights, buffers and their
/// types, on the CPU and in train mode, as a new model is. The file holds its text form where the
/// model is a Sequential of layers that Sequential::parse knows. Throws Error for a file without
/// one, from a newer version, whose tensors are not those of its text, or that holds a NaN, and for
/// a damaged checkpoint.
Sequential load_model(const std::filesystem::path& path);

/// What save_weights() writes beside the tensors: the model's text form, or nothing where parse()
/// would make another model of it.
std::map<std::string, std::string> metadata_of(Module& model);

}  // namespace sinter
