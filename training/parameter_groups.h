// Parameters with a learning rate and a weight decay of their own: torch's param_groups.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/layers/parameter.h>

namespace sinter {

struct ParameterGroup {
  Parameters parameters;
  std::optional<double> lr = std::nullopt;            ///< else the optimizer's
  std::optional<double> weight_decay = std::nullopt;  ///< else the optimizer's
};

/// What an optimizer works on: the parameters of a model, or groups of them.
///
///     AdamW optimizer{{{.parameters = model[0].parameters(), .lr = 1e-4},
///                      {.parameters = model[2].parameters()}},
///                     {.lr = 1e-3}};
class ParameterGroups : public std::vector<ParameterGroup> {
 public:
  ParameterGroups() = default;
  /// One group.
  ParameterGroups(Parameters parameters) { push_back({std::move(parameters)}); }
  ParameterGroups(std::initializer_list<NamedParameter> parameters)
      : ParameterGroups(Parameters(parameters)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : vector(groups) {}
};

/// Those whose name a pattern matches, in which * stands for any characters and ? for one:
/// "0.*", "*.bias". Throws Error where there is none.
Parameters matching(const Parameters& parameters, std::string_view pattern);

/// Two groups: matrices, which take the optimizer's weight decay, and what has fewer than two
/// dimensions (biases, the weights of norms), which takes none; timm's param_groups_weight_decay.
///
///     AdamW optimizer{weight_decay_groups(model.parameters()), {.weight_decay = 0.05}};
ParameterGroups weight_decay_groups(const Parameters& parameters);

}  // namespace sinter
