#include "golden_file.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <optional>
#include <set>

#include <sinter/layers/safetensors.h>
#include <sinter/runtime/error.h>

namespace golden {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// The names that a case's list leaves to the reader; data/README.md says them in words.
struct Unlisted {
  Names inputs;
  Names results;
};

Unlisted unlisted(const Case& c, const Names& grads) {
  Unlisted names;
  for (const std::string& grad : grads) {
    if (grad.starts_with("grad_") && names.inputs.empty()) {
      names.inputs.push_back("g");
    }
    if (grad.starts_with("grad_param_")) {
      names.inputs.push_back(grad.substr(std::string("grad_").size()));
    }
  }
  if (c.args.value("weighted", false)) {
    names.inputs.push_back("weight");
  }
  if (c.op.starts_with("BatchNorm")) {
    names.inputs.insert(names.inputs.end(),
                        {"buffer_before_running_mean", "buffer_before_running_var"});
    names.results.insert(names.results.end(),
                         {"buffer_after_running_mean", "buffer_after_running_var",
                          "buffer_after_num_batches_tracked"});
  }
  if (c.op == "train") {
    // Every second module is an activation, which has no parameters.
    for (std::size_t layer = 0; layer + 1 < c.args.at("sizes").size(); ++layer) {
      for (const char* parameter : {".weight", ".bias"}) {
        const std::string name = std::to_string(2 * layer) + parameter;
        names.inputs.push_back("init/" + name);
        names.results.push_back("final/" + name);
      }
    }
  }
  return names;
}

Case read_case(const Json& entry, const std::string& group) {
  Case c;
  c.group = group;
  c.id = "entry without an id";
  try {
    c.id = entry.at("id").get<std::string>();
    c.op = entry.at("op").get<std::string>();
    c.args = entry.at("args");
    sinter::check(c.args.is_object(), "its args are no JSON object");
    c.inputs = entry.at("inputs").get<Names>();
    c.results = entry.at("outputs").get<Names>();
    const Names grads = entry.at("grads").get<Names>();
    c.results.insert(c.results.end(), grads.begin(), grads.end());
    const Unlisted more = unlisted(c, grads);
    c.inputs.insert(c.inputs.end(), more.inputs.begin(), more.inputs.end());
    c.results.insert(c.results.end(), more.results.begin(), more.results.end());
  } catch (const std::exception& error) {
    c.fault = std::string("its entry in the list cannot be read: ") + error.what();
  }
  return c;
}

void set_fault(Case& c, const std::string& fault) {
  if (c.fault.empty()) {
    c.fault = fault;
  }
}

// Files and list must name the same tensors, so that nothing can drop out of either unnoticed.
void give_tensors(Group& group, const sinter::TensorFile& file, const std::string& file_name) {
  std::map<std::string, Case*> by_id;
  for (Case& c : group.cases) {
    if (!by_id.emplace(c.id, &c).second) {
      set_fault(c, "the list has this id twice");
    }
  }
  std::set<std::string> strangers;
  for (const auto& [full_name, tensor] : file.tensors) {
    const std::size_t slash = full_name.find('/');
    const std::string id = full_name.substr(0, slash);
    const auto owner = by_id.find(id);
    if (slash == std::string::npos || owner == by_id.end()) {
      strangers.insert(id);
    } else {
      owner->second->tensors[full_name.substr(slash + 1)] = tensor;
    }
  }
  for (const std::string& id : strangers) {
    group.faults.push_back(file_name + " holds tensors of " + id +
                           ", which the list does not have");
  }
  for (Case& c : group.cases) {
    std::set<std::string> named(c.inputs.begin(), c.inputs.end());
    named.insert(c.results.begin(), c.results.end());
    for (const std::string& name : named) {
      if (!c.tensors.contains(name)) {
        set_fault(c, file_name + " has no tensor " + c.id + "/" + name);
      }
    }
    for (const auto& [name, tensor] : c.tensors) {
      if (!named.contains(name)) {
        set_fault(c, file_name + " holds " + c.id + "/" + name + ", which the list does not name");
      }
    }
  }
}

std::optional<Json> read_json(const fs::path& path) {
  std::ifstream in(path);
  Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? std::nullopt : std::optional<Json>(std::move(json));
}

// None where a JSON file is something else than a list of cases.
std::optional<Group> read_group(const fs::path& directory, const std::string& name) {
  Group group;
  group.name = name;
  const fs::path list_path = directory / (name + ".json");
  const fs::path tensor_path = directory / (name + ".safetensors");
  const bool has_tensors = fs::exists(tensor_path);
  if (!fs::exists(list_path)) {
    group.faults.push_back("there is a " + name + ".safetensors but no " + name + ".json");
    return group;
  }
  const std::optional<Json> json = read_json(list_path);
  if (!json) {
    group.faults.push_back(name + ".json is not valid JSON");
    return group;
  }
  if (!json->is_object() || !json->contains("cases") || !(*json)["cases"].is_array()) {
    if (!has_tensors) {
      return std::nullopt;
    }
    group.faults.push_back(name + ".json has no list \"cases\"");
    return group;
  }
  for (const Json& entry : (*json)["cases"]) {
    ++group.listed;
    group.cases.push_back(read_case(entry, name));
  }
  sinter::TensorFile file;
  try {
    file = sinter::read_safetensors(tensor_path);
  } catch (const sinter::Error& error) {
    group.faults.push_back(error.what());
  }
  give_tensors(group, file, name + ".safetensors");
  return group;
}

}  // namespace

const sinter::Tensor& Case::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  sinter::check(found != tensors.end(), "the case has no tensor ", name);
  return found->second;
}

std::vector<Group> read_directory(const fs::path& directory) {
  sinter::check(fs::is_directory(directory), "there is no folder ", directory.string());
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".json" || entry.path().extension() == ".safetensors") {
      names.insert(entry.path().stem().string());
    }
  }
  std::vector<Group> groups;
  for (const std::string& name : names) {
    if (std::optional<Group> group = read_group(directory, name)) {
      groups.push_back(std::move(*group));
    }
  }
  sinter::check(!groups.empty(),
                "there are no reference values (NAME.json and NAME.safetensors) in ",
                directory.string());
  return groups;
}

}  // namespace golden
