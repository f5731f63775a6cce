// A plain text table with aligned columns.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sinter {

class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  /// One cell for each column of the header.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines, each ended by a newline; columns of numbers are aligned to the right.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sinter
