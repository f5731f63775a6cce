#include <algorithm>
#include <iterator>

#include <sinter/training/parameter_groups.h>

namespace sinter {
namespace {

// Goes back to the latest * where what follows it does not match, so it takes no recursion.
bool matches(std::string_view name, std::string_view pattern) {
  constexpr auto none = std::string_view::npos;
  std::size_t i = 0, p = 0, star = none, from = 0;
  while (i < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = i;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[i])) {
      ++i;
      ++p;
    } else if (star != none) {
      p = star + 1;
      i = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == none;
}

}  // namespace

Parameters matching(const Parameters& parameters, std::string_view pattern) {
  Parameters out;
  std::ranges::copy_if(parameters, std::back_inserter(out),
                       [&](const NamedParameter& p) { return matches(p.name, pattern); });
  check(!out.empty(), "matching: none of ", parameters.size(), " parameters is named like \"",
        pattern, "\"", parameters.empty() ? "" : "; the first is ",
        parameters.empty() ? "" : parameters.front().name);
  return out;
}

ParameterGroups weight_decay_groups(const Parameters& parameters) {
  ParameterGroup decayed, others{.parameters = {}, .weight_decay = 0.0};
  for (const NamedParameter& parameter : parameters) {
    check(parameter.state != nullptr, "weight_decay_groups: parameter ", parameter.name,
          " is empty; take parameters from model.parameters()");
    (parameter.state->shape.rank() >= 2 ? decayed : others).parameters.push_back(parameter);
  }
  ParameterGroups groups;
  for (ParameterGroup* group : {&decayed, &others}) {
    if (!group->parameters.empty()) {
      groups.push_back(std::move(*group));
    }
  }
  return groups;
}

}  // namespace sinter
