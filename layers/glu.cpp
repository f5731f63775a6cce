#include <tuple>

#include <sinter/layers/glu.h>
#include <sinter/layers/text_form.h>

namespace sinter {

GLUModule::GLUModule(const GLU& layer) : act(layer.act), drop_p(layer.drop_p) {
  check_probability("glu(drop_p)", drop_p);
  check_activation("glu", act);
}

Tensor GLUModule::forward(const Tensor& x) { return glu(x, act, dropout_of(*this, drop_p)); }

// Only what differs from the defaults is written.
std::string GLUModule::text() const {
  return std::visit(
      [this]<class A>(const A& a) {
        TextForm form("glu");
        if (A::name != math::Sigmoid::name) {
          form.value("act=" + std::string(A::name));
        }
        write_parameters(form, a);
        form.argument_unless("drop_p", drop_p, 0.0);
        return form.str();
      },
      act);
}

}  // namespace sinter
