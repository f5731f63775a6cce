#include <algorithm>
#include <cmath>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/functions.h>
#include <sinter/autograd/gradcheck.h>
#include <sinter/kernels/precision.h>

namespace sinter {
namespace {

// Fixed weights without a pattern that a wrong sum could hide in.
Tensor weights_for(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.5 + std::fmod(static_cast<double>(i + 1) * 0.6180339887498949, 1.0);
  }
  return Tensor::from(values, shape);
}

double weighted_sum(const Tensor& y) {
  const Tensor host = y.detach().to(Device::cpu());
  const Tensor weights = weights_for(y.shape());
  double total = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    total += host.data<double>()[i] * weights.data<double>()[i];
  }
  return total;
}

class Checker {
 public:
  Checker(const std::function<Tensor(std::span<const Tensor>)>& f, std::vector<Tensor> inputs,
          const GradCheckOptions& options)
      : f_(f), inputs_(std::move(inputs)), options_(options) {}

  GradCheckReport run() {
    for (Tensor& input : inputs_) {
      check(input.dtype() == DType::float64, "check_gradient: inputs must be float64, got ",
            input.dtype());
      input = input.detach().clone();
    }
    const std::vector<Tensor> gradients = backward();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::int64_t n = inputs_[i].numel();
      const std::int64_t wanted = options_.at_most > 0 ? std::min(options_.at_most, n) : n;
      for (std::int64_t k = 0; k < wanted; ++k) {
        compare(i, k * n / wanted, gradients[i]);
      }
    }
    return report_;
  }

 private:
  std::vector<Tensor> backward() {
    std::vector<Tensor> leaves = inputs_;
    for (Tensor& leaf : leaves) {
      leaf.set_requires_grad();
    }
    Tape tape;
    const Tensor y = f_(leaves);
    tape.backward(y, weights_for(y.shape()).to(y.device()));
    std::vector<Tensor> out;
    for (const Tensor& leaf : leaves) {
      const Tensor gradient = leaf.grad();
      out.push_back(gradient.defined() ? gradient.to(Device::cpu())
                                       : Tensor::zeros(leaf.shape(), DType::float64));
    }
    return out;
  }

  double at(std::size_t input, std::int64_t element, double value) {
    const NoTape no_tape;
    Tensor& x = inputs_[input];
    std::vector<double> values = x.to_vector<double>();
    values[static_cast<std::size_t>(element)] = value;
    const Tensor original = std::exchange(x, Tensor::from(values, x.shape(), x.device()));
    const double out = weighted_sum(f_(inputs_));
    x = original;
    return out;
  }

  void compare(std::size_t input, std::int64_t element, const Tensor& gradient) {
    const double says = gradient.data<double>()[element];
    const double x = inputs_[input].to_vector<double>()[static_cast<std::size_t>(element)];
    const double here = at(input, element, x);
    double best = HUGE_VAL;
    double differences = 0;
    double last_gap = 0;
    bool jump = false;
    bool between = false;
    for (const double shrink : {1.0, 0.1, 0.01}) {
      const double h = options_.step * shrink * std::max(1.0, std::abs(x));
      const double up = x + h;
      const double down = x - h;
      const double f_up = at(input, element, up);
      const double f_down = at(input, element, down);
      const double central = (f_up - f_down) / (up - down);
      const double error = std::abs(central - says) / std::max(1.0, std::abs(says));
      if (!(error >= best)) {
        best = error;
        differences = central;
      }
      const double right = (f_up - here) / (up - x);
      const double left = (here - f_down) / (x - down);
      // Where the derivative jumps, the two sides differ about as much after one of the steps to a
      // tenth; where it is smooth, they differ by a tenth after each.
      const double gap = std::abs(right - left);
      jump = jump || (last_gap > 0 && gap > last_gap / 2);
      last_gap = gap;
      const double slack = options_.tolerance * std::max({1.0, std::abs(left), std::abs(right)});
      between =
          jump && says >= std::min(left, right) - slack && says <= std::max(left, right) + slack;
      if (error <= options_.tolerance) {
        break;
      }
    }
    if (std::isnan(best)) {
      best = HUGE_VAL;  // the worst that there is, where NaN would compare as nothing
    }
    ++report_.checked;
    const bool fits = best <= options_.tolerance;
    if (!fits && between) {
      ++report_.at_kinks;
      return;
    }
    if (!(best <= report_.worst_error)) {
      report_.worst_error = best;
      report_.worst = text("input ", input, ", element ", element, ": backward says ", says,
                           ", differences say ", differences);
    }
    report_.passed = report_.passed && fits;
  }

  const std::function<Tensor(std::span<const Tensor>)>& f_;
  std::vector<Tensor> inputs_;
  GradCheckOptions options_;
  GradCheckReport report_;
};

}  // namespace

GradCheckReport check_gradient(const std::function<Tensor(std::span<const Tensor>)>& f,
                               std::vector<Tensor> inputs, const GradCheckOptions& options) {
  return Checker(f, std::move(inputs), options).run();
}

// Room for some roundings in a row.
double detail::gradient_tolerance(DType dtype, Device device) {
  if (dtype == DType::float64) {
    return 1e-9;
  }
  const DType factors = dtype == DType::float32 ? Autocast::dtype().value_or(dtype) : dtype;
  const bool is_tf32 =
      device.type == DeviceType::cuda && matmul_precision() == MatmulPrecision::high;
  return factors == DType::bfloat16 ? 0.15 : factors == DType::float16 || is_tf32 ? 2e-2 : 1e-4;
}

}  // namespace sinter
