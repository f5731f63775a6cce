// The arguments of a case. Each is read once by name, and one that nobody reads is an error: an
// option that a check leaves out would otherwise be taken for checked.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "golden_file.h"

namespace golden {

class Arguments {
 public:
  explicit Arguments(const Case& c) : args_(c.args) {}

  bool has(const std::string& name) const { return args_.contains(name); }
  /// The value of an argument that must be there.
  template <class T>
  T get(const std::string& name) {
    read_.insert(name);
    sinter::check(has(name), "the case has no argument ", name);
    return args_.at(name).get<T>();
  }
  template <class T>
  T get(const std::string& name, T otherwise) {
    return has(name) ? get<T>(name) : otherwise;
  }

  /// Throws sinter::Error that names what was not read.
  void require_all_read() const {
    for (const auto& [name, value] : args_.items()) {
      sinter::check(read_.contains(name), "nothing is known of the argument ", name);
    }
  }

 private:
  const Json& args_;
  std::set<std::string> read_;
};

}  // namespace golden
