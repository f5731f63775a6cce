// Activations: the public function and, through a tape, its derivative.
#include <tuple>
#include <utility>
#include <vector>

#include "checks.h"
#include <sinter/autograd/functions.h>

namespace golden {
namespace {

using sinter::Tensor;

template <class A>
A with_arguments(Arguments& args) {
  A act;
  std::apply(
      [&](const auto&... field) {
        ((act.*field.member = args.get<double>(std::string(field.name), act.*field.member)), ...);
      },
      A::fields);
  return act;
}

Tensor chosen(const Tensor& tensor, const std::vector<std::size_t>& elements) {
  std::vector<double> values;
  for (const std::size_t i : elements) {
    values.push_back(tensor.values<double>()[i]);
  }
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// The reference is the value at x itself, so only an x that the type holds can be compared.
std::vector<std::size_t> comparable(const Tensor& x, sinter::DType dtype) {
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < x.values<double>().size(); ++i) {
    if (is_value_of(dtype, x.values<double>()[i])) {
      elements.push_back(i);
    }
  }
  return elements;
}

template <class A, class Function>
void check_function(const Case& c, Arguments& args, const Setup& setup, Report& report,
                    Function function) {
  const A act = with_arguments<A>(args);
  args.require_all_read();
  const Tensor& all = c.tensor("x");
  const std::vector<std::size_t> elements = comparable(all, setup.dtype);
  const std::size_t count = all.values<double>().size();
  report.leave_out(count - elements.size(), count);
  const Tensor inputs = chosen(all, elements);
  const auto place = [&](std::size_t i) {
    return sinter::text("x = ", inputs.values<double>()[i]);
  };

  Tensor x = inputs.to(setup.dtype).to(setup.device);
  x.set_requires_grad();
  sinter::Tape tape;
  const Tensor y = function(x, act);
  Limit limit = activation_limit(setup.dtype);
  report.compare("y", y, chosen(c.tensor("y"), elements), limit, place);
  tape.backward(y, Tensor::full(y.shape(), 1.0, y.dtype(), y.device()));
  limit = sinter::math::derives_from_output<A> ? derivative_from_output_limit(setup.dtype)
                                               : activation_limit(setup.dtype);
  report.compare("dydx", x.grad(), chosen(c.tensor("dydx"), elements), limit, place);
}

}  // namespace

void check_activation(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  std::string name = c.op;
  if (name == "gelu") {
    const auto approximate = args.get<std::string>("approximate", "none");
    sinter::check(approximate == "none" || approximate == "tanh", "gelu has no approximation ",
                  approximate);
    name = approximate == "tanh" ? "gelu_tanh" : "gelu";
  }
#define SINTER_GOLDEN_CHECK(Type, function)                                                   \
  if (name == #function) {                                                                    \
    return check_function<sinter::math::Type>(                                                \
        c, args, setup, report,                                                               \
        [](const Tensor& x, const sinter::math::Type& a) { return sinter::function(x, a); }); \
  }
  SINTER_ACTIVATIONS(SINTER_GOLDEN_CHECK)
#undef SINTER_GOLDEN_CHECK
  throw NotYet(name);
}

}  // namespace golden
