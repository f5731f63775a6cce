#include <string>

#include <sinter/layers/activations.h>
#include <sinter/layers/norm_module.h>
#include <sinter/layers/text_form.h>

namespace sinter {

NormModule::NormModule(const char* name, const std::optional<math::AnyActivation>& act,
                       double drop_p)
    : act_(act), drop_p_(drop_p) {
  check_probability((std::string(name) + "(drop_p)").c_str(), drop_p);
  if (act) {
    check_activation(name, *act);
  }
}

DropoutOptions NormModule::dropout_now() { return dropout_of(*this, drop_p_); }

void NormModule::check_bare() const {
  check(!has_tail(), text(), ": has an activation or dropout of its own");
}

void NormModule::write_tail(TextForm& form) const {
  if (act_) {
    std::visit(
        [&form]<class A>(const A& act) {
          form.value("act=" + std::string(A::name));
          write_parameters(form, act);
        },
        *act_);
  }
  form.argument_unless("drop_p", drop_p_, 0.0);
}

}  // namespace sinter
