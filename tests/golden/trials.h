// For the test of the test: copies of the reference values that can be spoilt, and runs of
// golden_check over them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "../structure/shell.h"
#include <sinter/runtime/tensor.h>

namespace golden {

using Json = nlohmann::json;
using Lines = std::vector<std::string>;
using Tensors = std::map<std::string, sinter::Tensor>;

/// A copy of the reference values, which goes away with this.
class Copy {
 public:
  explicit Copy(const std::filesystem::path& data);

  const std::filesystem::path& path() const { return path_; }
  void edit_tensors(const std::string& group, const std::function<void(Tensors&)>& edit) const;
  void edit_list(const std::string& group, const std::function<void(Json& cases)>& edit) const;

 private:
  structure::TemporaryFolder folder_;
  std::filesystem::path path_;
};

/// What golden_check made of a directory.
struct Outcome {
  int status = 0;
  std::string output;  ///< begins with a line end, so that every line has one before it
  bool has_totals = false;
  std::size_t passed = 0, failed = 0, skipped = 0;

  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

class Trials {
 public:
  Trials(std::string checker, std::filesystem::path data);

  const std::filesystem::path& data() const { return data_; }
  /// The ids of all cases of a group, each followed by `what`.
  Lines every_case(const std::string& group, const std::string& what) const;

  Outcome run(const std::filesystem::path& directory, const std::string& dtype) const;
  /// After `plant` the check must fail with one failure for each of `complaints`, beginnings of
  /// lines, and no other.
  void red(const std::string& fault, const std::string& dtype,
           const std::function<void(const Copy&)>& plant, const Lines& complaints);
  void demand(bool met, const std::string& what, const Outcome& outcome);

  /// Says how it went; the program's exit status.
  int conclude() const;

 private:
  std::string checker_;
  std::filesystem::path data_;
  int demands_ = 0;
  int unmet_ = 0;
};

}  // namespace golden
