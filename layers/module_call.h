// Which layer's forward runs, for the sentences of a DetectAnomaly scope.
#pragma once

#include <optional>
#include <string>

#include <sinter/autograd/anomaly.h>

namespace sinter {

class Module;

namespace detail {

/// A call of a module: names it, by its text and its place in the outermost module that is called,
/// while it lives. Outside of a DetectAnomaly scope it does nothing.
class ModuleCall {
 public:
  explicit ModuleCall(Module& module) {
    if (DetectAnomaly::is_on()) [[unlikely]] {
      begin(module);
    }
  }
  ~ModuleCall() {
    if (module_ != nullptr) [[unlikely]] {
      end();
    }
  }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

 private:
  void begin(Module& module);
  void end();

  Module* module_ = nullptr;
  const ModuleCall* outer_ = nullptr;
  LayerName outer_name_;
  std::string place_;  // empty: the outermost, or none that members() names
};

}  // namespace detail
}  // namespace sinter
