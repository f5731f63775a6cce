// Reads the arguments of one layer of the text form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <sinter/layers/model_text.h>

namespace sinter {

/// Takes the arguments of a call one by one, those without a name in the order of the questions.
class Taker {
 public:
  Taker(const LayerCall& call, std::string usage) : call_(call), usage_(std::move(usage)) {}

  /// The argument of that name, or nullptr.
  const LayerArgument* find(std::string_view name) {
    return take([&](const LayerArgument& argument) { return argument.name == name; });
  }
  /// The same, or the next one without a name; a slot that is filled twice is an error.
  const LayerArgument* find_in_order(std::string_view name) {
    const LayerArgument* const named = find(name);
    const LayerArgument* const next =
        take([](const LayerArgument& argument) { return argument.name.empty(); });
    if (named != nullptr && next != nullptr) {
      call_.fail(next->at, usage_);
    }
    return named != nullptr ? named : next;
  }
  const LayerArgument& need(std::string_view name) {
    const LayerArgument* const argument = find_in_order(name);
    if (argument == nullptr) {
      call_.fail(call_.at, usage_);
    }
    return *argument;
  }
  std::int64_t whole_number(std::string_view name, std::int64_t otherwise) {
    const LayerArgument* const argument = find(name);
    return argument == nullptr ? otherwise : call_.whole_number(*argument);
  }
  double number(std::string_view name, double otherwise) { return number(find(name), otherwise); }
  double number_in_order(std::string_view name, double otherwise) {
    return number(find_in_order(name), otherwise);
  }
  bool truth(std::string_view name, bool otherwise) {
    const LayerArgument* const argument = find(name);
    return argument == nullptr ? otherwise : call_.truth(*argument);
  }
  /// Fails for an argument that nobody asked for.
  void finish() const {
    for (std::size_t i = 0; i < call_.arguments.size(); ++i) {
      if (!taken_.contains(i)) {
        call_.fail(call_.arguments[i].at, usage_);
      }
    }
  }

 private:
  template <class Fits>
  const LayerArgument* take(Fits fits) {
    for (std::size_t i = 0; i < call_.arguments.size(); ++i) {
      if (!taken_.contains(i) && fits(call_.arguments[i])) {
        taken_.insert(i);
        return &call_.arguments[i];
      }
    }
    return nullptr;
  }
  double number(const LayerArgument* argument, double otherwise) const {
    return argument == nullptr ? otherwise : call_.number(*argument);
  }

  const LayerCall& call_;
  std::string usage_;
  std::set<std::size_t> taken_;
};

}  // namespace sinter
