// Activations: the public function and, through a tape, its derivative.
#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
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

// Where the derivative has a root and, computed in float32 as GPUs do, keeps the error of the terms
// that cancel there.
template <class A>
bool beside_root([[maybe_unused]] double x) {
  const auto near = [x](double root) { return std::abs(x - root) <= 0.5; };
  if constexpr (std::is_same_v<A, sinter::math::GELU>) {
    return near(-0.7517916);
  } else if constexpr (std::is_same_v<A, sinter::math::GELUTanh>) {
    return near(-0.7524614);
  } else if constexpr (std::is_same_v<A, sinter::math::SiLU>) {
    return near(-1.2784645);
  } else if constexpr (std::is_same_v<A, sinter::math::Mish>) {
    return near(-1.1924312);
  } else if constexpr (std::is_same_v<A, sinter::math::Hardswish>) {
    return near(-1.5);
  } else {
    return false;
  }
}

// On the CPU the limit of the type; on a GPU twice that in float32, where the heaviest formulas
// keep the errors of several roundings (tests/kernels/cuda/test_values.cpp says which).
Limit limit_on(const Setup& setup) {
  Limit limit = activation_limit(setup.dtype);
  if (setup.device != sinter::Device::cpu() && setup.dtype == sinter::DType::float32) {
    limit.ulps *= 2;
  }
  return limit;
}

// The derivative against its references; on a GPU small ones beside a root are measured in units
// of 0.125.
template <class A>
void compare_derivative(const Tensor& got, const Tensor& inputs, const Tensor& expected,
                        const Setup& setup, Report& report) {
  Limit limit = limit_on(setup);
  if (sinter::math::derives_from_output<A>) {
    limit.absolute = derivative_from_output_limit(setup.dtype).absolute;
  }
  std::vector<std::size_t> small, others;
  for (std::size_t i = 0; i < inputs.values<double>().size(); ++i) {
    const bool cancels = setup.device != sinter::Device::cpu() &&
                         beside_root<A>(inputs.values<double>()[i]) &&
                         std::abs(expected.values<double>()[i]) < 0.125;
    (cancels ? small : others).push_back(i);
  }
  const Tensor results = got.to(sinter::Device::cpu()).to(sinter::DType::float64);
  const auto compare = [&](const std::vector<std::size_t>& elements, const Limit& within) {
    if (!elements.empty()) {
      report.compare("dydx", chosen(results, elements).to(setup.dtype), chosen(expected, elements),
                     within, [&](std::size_t i) {
                       return sinter::text("x = ", inputs.values<double>()[elements[i]]);
                     });
    }
  };
  compare(others, limit);
  compare(small, {.absolute = limit.ulps * spacing(setup.dtype, 0.125)});
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
  report.compare("y", y, chosen(c.tensor("y"), elements), limit_on(setup), place);
  tape.backward(y, Tensor::full(y.shape(), 1.0, y.dtype(), y.device()));
  sinter::check(x.grad().dtype() == setup.dtype && x.grad().shape() == inputs.shape(),
                "the derivative is ", x.grad().dtype(), " ", x.grad().shape());
  compare_derivative<A>(x.grad(), inputs, chosen(c.tensor("dydx"), elements), setup, report);
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
