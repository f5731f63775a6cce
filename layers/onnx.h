// A model as an ONNX file, which other runtimes run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <sinter/layers/module.h>

namespace sinter {

struct OnnxOptions {
  std::string input = "input";  ///< what the file calls the model's input, and its output
  std::string output = "output";
  /// float32, or an integer type, as a model that begins with an Embedding needs.
  DType input_type = DType::float32;
};

/// Writes what the model computes in eval mode as ONNX of operator set 17, for inputs of the shape
/// `input` (batch included, as summary() takes it) and any batch: the file leaves the first
/// dimension open. Parameters and buffers keep their names, and are float32 whatever the model's
/// type is, as is all arithmetic. A module of one's own says how by overriding Module::onnx.
/// Throws Error, and writes nothing, for an input that the model does not take, a module without an
/// ONNX form, and parameters beyond 2 GiB, where the format ends.
void export_onnx(Module& model, const std::filesystem::path& path, const Shape& input,
                 const OnnxOptions& options = {});

}  // namespace sinter
