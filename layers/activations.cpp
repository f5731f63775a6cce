#include <utility>
#include <vector>

#include <sinter/layers/activations.h>
#include <sinter/layers/text_form.h>

namespace sinter {

DropoutOptions dropout_of(Module& module, double p) {
  return module.training() && p != 0 ? DropoutOptions{p, module.generator()} : DropoutOptions{};
}

ActivationModule::ActivationModule(const math::AnyActivation& activation, double probability)
    : act(activation), drop_p(probability) {
  const std::string name(std::visit([](const auto& a) { return a.name; }, act));
  check_probability((name + "(drop_p)").c_str(), drop_p);
  check_activation(name.c_str(), act);
}

Tensor ActivationModule::forward(const Tensor& x) { return activation(x, act, dropout_now()); }

DropoutOptions ActivationModule::dropout_now() { return dropout_of(*this, drop_p); }

// Only what differs from the defaults is written.
std::string ActivationModule::text() const {
  return std::visit(
      [this]<class A>(const A& a) {
        TextForm form(A::name);
        write_parameters(form, a);
        form.argument_unless("drop_p", drop_p, 0.0);
        return form.str();
      },
      act);
}

DropoutModule::DropoutModule(double probability) : p(probability) {
  check_probability("dropout", p);
}

Tensor DropoutModule::forward(const Tensor& x) { return dropout(x, dropout_now()); }

DropoutOptions DropoutModule::dropout_now() { return dropout_of(*this, p); }

std::string DropoutModule::text() const { return TextForm("dropout").argument("p", p).str(); }

}  // namespace sinter
