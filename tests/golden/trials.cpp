#include "trials.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include <sinter/layers/safetensors.h>

namespace golden {

namespace fs = std::filesystem;

Copy::Copy(const fs::path& data) : path_(folder_.path() / "golden") {
  fs::create_directory(path_);
  for (const auto& entry : fs::directory_iterator(data)) {
    const fs::path copy = path_ / entry.path().filename();
    fs::copy_file(entry.path(), copy);
    // A copy keeps the mode, and the original may be read-only.
    fs::permissions(copy, fs::perms::owner_write, fs::perm_options::add);
  }
}

void Copy::edit_tensors(const std::string& group, const std::function<void(Tensors&)>& edit) const {
  const fs::path path = path_ / (group + ".safetensors");
  sinter::TensorFile file = sinter::read_safetensors(path);
  edit(file.tensors);
  sinter::write_safetensors(path, file);
}

void Copy::edit_list(const std::string& group, const std::function<void(Json& cases)>& edit) const {
  const fs::path path = path_ / (group + ".json");
  Json list = Json::parse(std::ifstream(path));
  edit(list.at("cases"));
  std::ofstream(path) << list;
}

Trials::Trials(std::string checker, fs::path data)
    : checker_(std::move(checker)), data_(std::move(data)) {}

Lines Trials::every_case(const std::string& group, const std::string& what) const {
  Lines lines;
  const Json list = Json::parse(std::ifstream(data_ / (group + ".json")));
  for (const Json& entry : list.at("cases")) {
    lines.push_back(entry.at("id").get<std::string>() + what);
  }
  return lines;
}

Outcome Trials::run(const fs::path& directory, const std::string& dtype) const {
  const structure::Outcome ran =
      structure::run(structure::quoted(checker_) + " " + structure::quoted(directory.string()) +
                     " --dtype " + dtype);
  Outcome outcome;
  outcome.status = ran.status;
  outcome.output = "\n" + ran.output;
  if (ran.output.empty()) {
    return outcome;
  }
  const std::size_t last_line = outcome.output.rfind('\n', outcome.output.size() - 2);
  outcome.has_totals =
      std::sscanf(outcome.output.c_str() + last_line, " %zu passed, %zu failed, %zu skipped",
                  &outcome.passed, &outcome.failed, &outcome.skipped) == 3;
  return outcome;
}

void Trials::red(const std::string& fault, const std::string& dtype,
                 const std::function<void(const Copy&)>& plant, const Lines& complaints) {
  const Copy copy(data_);
  plant(copy);
  const Outcome outcome = run(copy.path(), dtype);
  const std::string where = fault + " (" + dtype + "): ";
  demand(outcome.status == 1 && outcome.has_totals && outcome.failed == complaints.size(),
         where + "expected " + std::to_string(complaints.size()) + " failures", outcome);
  for (const std::string& complaint : complaints) {
    demand(outcome.says("\nfailed " + complaint), where + "expected \"failed " + complaint + "\"",
           outcome);
  }
}

void Trials::demand(bool met, const std::string& what, const Outcome& outcome) {
  ++demands_;
  if (!met) {
    ++unmet_;
    std::cout << what << "; golden_check gave status " << outcome.status << " and said:\n";
    std::istringstream lines(
        outcome.output.substr(std::min<std::size_t>(1, outcome.output.size())));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("skipped ")) {
        std::cout << "  " << line << "\n";
      }
    }
  }
}

int Trials::conclude() const {
  std::cout << demands_ << " demands, " << unmet_ << " unmet" << std::endl;
  return unmet_ == 0 ? 0 : 1;
}

}  // namespace golden
