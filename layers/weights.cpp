#include <algorithm>

#include <sinter/layers/safetensors.h>
#include <sinter/layers/weights.h>
#include <sinter/runtime/paths.h>

namespace sinter {

void save_weights(Module& model, const std::filesystem::path& path) {
  TensorFile file;
  for (const NamedParameter& parameter : model.parameters()) {
    file.tensors[parameter.name] = parameter.value().detach();
  }
  write_safetensors(path, file);
}

void load_weights(Module& model, const std::filesystem::path& path) {
  TensorFile file = read_safetensors(path);
  const Parameters parameters = model.parameters();
  std::string missing;
  std::string different;
  for (const NamedParameter& parameter : parameters) {
    const auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end()) {
      missing += " " + parameter.name;
    } else if (found->second.shape() != parameter.value().shape() ||
               found->second.dtype() != parameter.value().dtype()) {
      different += text(" ", parameter.name, " (", found->second.dtype(), " ",
                        found->second.shape(), " in the file, ", parameter.value().dtype(), " ",
                        parameter.value().shape(), " in the model)");
    }
  }
  std::string unexpected;
  for (const auto& [name, tensor] : file.tensors) {
    const bool known = std::ranges::any_of(
        parameters, [&name](const NamedParameter& parameter) { return parameter.name == name; });
    unexpected += known ? "" : " " + name;
  }
  check(missing.empty() && different.empty() && unexpected.empty(), "weights file ",
        full_path(path).string(),
        " is for another model:", missing.empty() ? "" : " missing:" + missing + ";",
        unexpected.empty() ? "" : " unexpected:" + unexpected + ";",
        different.empty() ? "" : " different:" + different + ";");
  for (const NamedParameter& parameter : parameters) {
    Tensor value = parameter.value().detach();
    value.copy_from(file.tensors.at(parameter.name));
  }
}

}  // namespace sinter
