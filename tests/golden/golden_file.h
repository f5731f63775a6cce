// Reads a directory of reference values: NAME.json lists the cases of a group, NAME.safetensors
// holds their tensors as "<case id>/<tensor>". What is wrong with the files is kept, not thrown:
// every case that is listed must end up in the count.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <sinter/runtime/tensor.h>

namespace golden {

using Json = nlohmann::json;

struct Case {
  std::string group;
  std::string id;
  std::string op;
  Json args = Json::object();
  std::vector<std::string> inputs;
  std::vector<std::string> results;  ///< what a check must compare, all of it
  std::map<std::string, sinter::Tensor> tensors;
  std::string fault;  ///< why it cannot be checked; empty if it can

  /// Throws sinter::Error where the case has none of that name.
  const sinter::Tensor& tensor(const std::string& name) const;
};

struct Group {
  std::string name;
  std::size_t listed = 0;           ///< entries of the list, readable or not
  std::vector<Case> cases;          ///< one for each of them
  std::vector<std::string> faults;  ///< of the files; those of a case stand there
};

/// Every group of the directory, by name. Throws sinter::Error where there is no such directory or
/// no group in it.
std::vector<Group> read_directory(const std::filesystem::path& directory);

}  // namespace golden
