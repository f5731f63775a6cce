#include <algorithm>
#include <typeinfo>
#include <utility>
#include <vector>

#include <sinter/layers/model_file.h>
#include <sinter/layers/tensor_file.h>

namespace sinter {
namespace {

// What a module itself consists of, by full names. Parameters need not be drawn.
struct OwnMembers : Members {
  std::string prefix;
  std::vector<std::pair<std::string, Parameter*>> parameters;
  std::vector<std::pair<std::string, Buffer*>> buffers;

  void child(std::string_view, Module&) override {}
  void parameter(std::string_view name, Parameter& parameter) override {
    if (parameter.present()) {
      parameters.emplace_back(prefix + std::string(name), &parameter);
    }
  }
  void buffer(std::string_view name, Buffer& buffer) override {
    if (buffer.present()) {
      buffers.emplace_back(prefix + std::string(name), &buffer);
    }
  }
};

OwnMembers members_of(Module& model) {
  OwnMembers out;
  detail::for_each_module(model, [&out](const std::string& name, Module& module) {
    out.prefix = name.empty() ? "" : name + ".";
    module.members(out);
  });
  return out;
}

// Two models are the same if they have the same layers at the same places.
std::vector<std::pair<std::string, const std::type_info*>> layers_of(Module& model) {
  std::vector<std::pair<std::string, const std::type_info*>> out;
  detail::for_each_module(model, [&out](const std::string& name, Module& module) {
    out.emplace_back(name + " " + module.text(), &typeid(module));
  });
  return out;
}

bool is_same_model(Module& a, Module& b) {
  return std::ranges::equal(layers_of(a), layers_of(b), [](const auto& x, const auto& y) {
    return x.first == y.first && *x.second == *y.second;
  });
}

// The file's tensor for a place of the model; its type may be another floating one.
const Tensor& tensor_for(const std::map<std::string, Tensor>& tensors, const std::string& name,
                         const Shape& shape, DType dtype, const std::string& source) {
  const auto found = tensors.find(name);
  check(found != tensors.end(), source, " holds no tensor ", name, ", which its model has");
  const Tensor& tensor = found->second;
  const bool fits = tensor.dtype() == dtype || (is_floating(tensor.dtype()) && is_floating(dtype));
  check(fits && tensor.shape() == shape, source, " holds ", name, " as ", tensor.dtype(), " ",
        tensor.shape(), ", and its model has ", dtype, " ", shape);
  return tensor;
}

}  // namespace

std::map<std::string, std::string> metadata_of(Module& model) {
  if (typeid(model) != typeid(Sequential)) {
    return {};
  }
  const std::string text = model.text();
  try {
    Sequential read = Sequential::parse(text);
    if (!is_same_model(model, read)) {
      return {};
    }
  } catch (const Error&) {
    return {};  // a layer of one's own
  }
  return {{"format", std::string(weights_format)},
          {"version", std::to_string(newest_version)},
          {"model", text}};
}

Sequential load_model(const std::filesystem::path& path) {
  const auto [source, described, tensors] = read_model(path);
  check(!described.empty(), source,
        " does not say which layers the model has, as files of other programs and of models with "
        "layers of one's own do not; build the model and call load_weights()");
  Sequential model;
  try {
    model = Sequential::parse(described);
  } catch (const Error& error) {
    throw Error(text(source, " cannot be read: ", error.what()));
  }
  // Checked before anything is drawn or made: a text may speak of more than there is memory for.
  OwnMembers members = members_of(model);
  check(tensors.size() == members.parameters.size() + members.buffers.size(), source, " has ",
        tensors.size(), " tensors, and its model ",
        members.parameters.size() + members.buffers.size());
  for (const auto& [name, buffer] : members.buffers) {
    Buffer read(tensor_for(tensors, name, buffer->shape(), buffer->dtype(), source));
    read.to(read.value().dtype());
    *buffer = std::move(read);
  }
  for (const auto& [name, parameter] : members.parameters) {
    ParameterState& state = *parameter->state();
    const Tensor& value = tensor_for(tensors, name, state.shape, state.dtype, source);
    state.dtype = value.dtype();
    state.rebind(value);
  }
  return model;
}

}  // namespace sinter
