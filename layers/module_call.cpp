#include <memory>
#include <utility>

#include <sinter/layers/module.h>
#include <sinter/layers/module_call.h>

namespace sinter::detail {
namespace {

thread_local const ModuleCall* innermost = nullptr;

}  // namespace

void ModuleCall::begin(Module& module) {
  std::string name = "the model";
  if (innermost != nullptr) {
    for_each_module(*innermost->module_, [&](const std::string& place, Module& part) {
      if (&part == &module && place_.empty()) {
        place_ = innermost->place_.empty() ? place : innermost->place_ + "." + place;
      }
    });
    name = module.text() + (place_.empty() ? "" : " \"" + place_ + "\"");
  }
  outer_name_ = exchange_layer_in_anomaly(std::make_shared<const std::string>(std::move(name)));
  outer_ = std::exchange(innermost, this);
  module_ = &module;
}

void ModuleCall::end() {
  innermost = outer_;
  exchange_layer_in_anomaly(std::move(outer_name_));
}

}  // namespace sinter::detail
