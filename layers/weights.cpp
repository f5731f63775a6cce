#include <algorithm>
#include <string>
#include <vector>

#include <sinter/layers/model_file.h>
#include <sinter/layers/safetensors.h>
#include <sinter/layers/tensor_file.h>
#include <sinter/layers/weights.h>

namespace sinter {

namespace {

// A tensor of the model's under the name that it has in a file.
struct Place {
  std::string name;
  Tensor value;
  bool is_buffer;

  // A buffer's type does not follow that of the file.
  bool takes(const Tensor& tensor) const {
    return tensor.shape() == value.shape() &&
           (tensor.dtype() == value.dtype() ||
            (is_buffer && is_floating(tensor.dtype()) && is_floating(value.dtype())));
  }
};

std::vector<Place> places_of(Module& model) {
  std::vector<Place> places;
  for (const NamedParameter& parameter : model.parameters()) {
    places.push_back({parameter.name, parameter.value().detach(), false});
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    check(std::ranges::none_of(places, [&](const Place& one) { return one.name == buffer.name; }),
          "a parameter and a buffer of the model are named ", buffer.name,
          "; name its members apart");
    places.push_back({buffer.name, buffer.value, true});
  }
  return places;
}

}  // namespace

std::map<std::string, Tensor> state_dict(Module& model) {
  std::map<std::string, Tensor> out;
  for (const Place& place : places_of(model)) {
    out[place.name] = place.value;
  }
  return out;
}

void check_state_dict(Module& model, const std::map<std::string, Tensor>& tensors,
                      const std::string& source) {
  const std::vector<Place> places = places_of(model);
  std::string missing;
  std::string different;
  for (const Place& place : places) {
    const auto found = tensors.find(place.name);
    if (found == tensors.end()) {
      missing += " " + place.name;
    } else if (!place.takes(found->second)) {
      different +=
          text(" ", place.name, " (", found->second.dtype(), " ", found->second.shape(),
               " in the file, ", place.value.dtype(), " ", place.value.shape(), " in the model)");
    }
  }
  std::string unexpected;
  for (const auto& [name, tensor] : tensors) {
    const bool known = std::ranges::any_of(
        places, [&name = name](const Place& place) { return place.name == name; });
    unexpected += known ? "" : " " + name;
  }
  check(missing.empty() && different.empty() && unexpected.empty(), source,
        " is for another model:", missing.empty() ? "" : " missing:" + missing + ";",
        unexpected.empty() ? "" : " unexpected:" + unexpected + ";",
        different.empty() ? "" : " different:" + different + ";");
}

void load_state_dict(Module& model, const std::map<std::string, Tensor>& tensors,
                     const std::string& source) {
  check_state_dict(model, tensors, source);
  for (const Place& place : places_of(model)) {
    Tensor value = place.value;
    value.copy_from(tensors.at(place.name).to(value.dtype()));
  }
}

void save_weights(Module& model, const std::filesystem::path& path) {
  write_safetensors(path, {state_dict(model), metadata_of(model)});
}

void load_weights(Module& model, const std::filesystem::path& path) {
  const StoredModel stored = read_model(path);
  load_state_dict(model, stored.tensors, stored.source);
}

}  // namespace sinter
