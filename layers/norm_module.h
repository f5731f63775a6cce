// What layers that normalise share: an activation and dropout behind the norm, in the same pass.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

class TextForm;

/// A norm whose options are `act`, an activation, and `drop_p`, dropout in train mode, behind it.
/// In torch's names of parameters either counts as a module of its own. A Sequential gives a norm
/// that has neither those of the layers behind it.
class NormModule : public Module {
 public:
  using Module::forward;
  /// dropout(act(forward(x))) in the same pass. Throws Error where has_tail().
  virtual Tensor forward(const Tensor& x, const math::AnyActivation& act,
                         const DropoutOptions& dropout) = 0;
  bool has_tail() const { return act_ || drop_p_ > 0; }
  /// Modules that torch's nn.Sequential has for it.
  std::size_t modules_of_torch() const { return 1 + (act_ ? 1u : 0u) + (drop_p_ > 0 ? 1u : 0u); }

 protected:
  /// Throws Error, in `name`'s name, for a drop_p outside [0, 1] and for parameters of the
  /// activation outside their range.
  NormModule(const char* name, const std::optional<math::AnyActivation>& act, double drop_p);
  const std::optional<math::AnyActivation>& act() const { return act_; }
  /// Dropout as it applies now: none in eval mode.
  DropoutOptions dropout_now();
  /// Throws Error where has_tail().
  void check_bare() const;
  void write_tail(TextForm& form) const;
  /// y, a name in the graph, with the activation behind it: eval mode has no dropout.
  std::string onnx_tail(OnnxGraph& graph, const std::string& y) const;

 private:
  std::optional<math::AnyActivation> act_;
  double drop_p_;
};

}  // namespace sinter
