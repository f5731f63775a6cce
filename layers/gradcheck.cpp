#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <sinter/autograd/autocast.h>
#include <sinter/layers/gradcheck.h>
#include <sinter/runtime/text.h>

namespace sinter::detail {
namespace {

double usual_tolerance(const Parameters& parameters) {
  double out = 0;
  for (const NamedParameter& parameter : parameters) {
    out = std::max(out, gradient_tolerance(parameter.state->dtype, parameter.state->device));
  }
  return out;
}

// Of each parameter in float64 on the host; zeros where the loss does not depend on it.
std::vector<Tensor> gradients(const Parameters& parameters, const std::function<Tensor()>& loss) {
  {
    Tape tape;
    tape.backward(loss());
  }
  std::vector<Tensor> out;
  for (const NamedParameter& parameter : parameters) {
    out.push_back(has_gradient(parameter)
                      ? parameter.grad().detach().to(Device::cpu()).to(DType::float64)
                      : Tensor::zeros(parameter.state->shape, DType::float64));
  }
  return out;
}

double largest(const Tensor& tensor) {
  double out = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    out = std::max(out, std::abs(tensor.data<double>()[i]));
  }
  return out;
}

}  // namespace

Tensor as_reference(const Tensor& tensor) {
  const Tensor host = tensor.detach().to(Device::cpu());
  return is_floating(host.dtype()) ? host.to(DType::float64) : host;
}

GradientComparison compare_models(Module& model, Module& reference,
                                  const std::function<Tensor()>& loss,
                                  const std::function<Tensor()>& reference_loss, double tolerance) {
  check(tolerance >= 0, "compare_model_gradient: the tolerance must be at least 0, got ",
        tolerance);
  const Parameters parameters = model.parameters();
  check(std::ranges::any_of(parameters, [](const auto& p) { return p.state->trainable; }),
        "compare_model_gradient: the model has no parameter that is trained");
  reference.to(Device::cpu());
  reference.to(DType::float64);
  const std::vector<Tensor> own = gradients(parameters, loss);
  std::vector<Tensor> expected;
  {
    const Autocast none(std::nullopt);
    expected = gradients(reference.parameters(), reference_loss);
  }
  GradientComparison report;
  report.tolerance = tolerance > 0 ? tolerance : usual_tolerance(parameters);
  double largest_of_all = 0;
  for (const Tensor& gradient : expected) {
    largest_of_all = std::max(largest_of_all, largest(gradient));
  }
  double worst = -1;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    if (!parameters[k].state->trainable) {
      continue;
    }
    ParameterGradientError of{parameters[k].name};
    // A gradient that is 0 in exact arithmetic, as of a bias before a batch norm, is what the
    // roundings of larger ones leave.
    const double unit = std::max(largest(expected[k]), 0.01 * largest_of_all);
    double most = -1;
    for (std::int64_t i = 0; i < own[k].numel(); ++i) {
      const double is = own[k].data<double>()[i], should = expected[k].data<double>()[i];
      const double apart = std::abs(is - should);
      // NaN compares as nothing, and 0 / 0 is no error.
      const double error = std::isnan(apart) ? HUGE_VAL : apart == 0 ? 0 : apart / unit;
      if (error > most) {
        most = error;
        of = {of.name, error, i, is, should};
      }
    }
    report.passed = report.passed && of.error <= report.tolerance;
    if (of.error > worst) {
      worst = of.error;
      report.worst =
          text(of.name, ", element ", of.element, ": ", of.gradient, " instead of ", of.expected,
               ", an error of ", of.error, " where ", report.tolerance, " is allowed");
    }
    report.parameters.push_back(std::move(of));
  }
  return report;
}

GradCheckReport check_model(Module& model, const Tensor& x,
                            const std::function<Tensor(const Tensor&)>& loss_of_output,
                            const GradCheckOptions& options) {
  model.to(Device::cpu());
  model.to(DType::float64);
  const Tensor input = as_reference(x);
  Generator& generator = *model.generator();
  const std::uint32_t step = generator.step();
  const std::uint32_t call = generator.next_call();
  const Parameters parameters = model.parameters();
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : parameters) {
    values.push_back(parameter.value().detach().clone());
  }
  const auto f = [&](std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].state->value = inputs[i];
    }
    generator.set_state(step, call);  // the same masks every time
    return loss_of_output(model(input));
  };
  return check_gradient(f, std::move(values), options);
}

}  // namespace sinter::detail
