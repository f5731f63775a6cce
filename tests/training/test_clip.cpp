// Gradients held to a norm. The values against PyTorch are golden_check's subject.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "../runtime/sentence.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

// The norm over all parameters, in float64, from what the host reads.
double norm_of_gradients(const Parameters& parameters) {
  double squares = 0;
  for (const NamedParameter& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) {
      for (const double g : gradient.to(Device::cpu()).to(DType::float64).to_vector<double>()) {
        squares += g * g;
      }
    }
  }
  return std::sqrt(squares);
}

Tensor numbers(const Shape& shape, double scale) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(scale * std::sin(1.7 * static_cast<double>(i)));
  }
  return Tensor::from(values, shape);
}

// More than one block's share of elements, and sizes that fill no vector.
Sequential model() {
  manual_seed(4);
  return Sequential{Linear{131, 517}, Tanh{}, Linear{517, 3}};
}

void backward(Module& net, double scale) {
  const Parameters parameters = net.parameters();
  const auto like = [&](const Tensor& x) {
    return x.to(parameters.front().value().dtype()).to(parameters.front().value().device());
  };
  Tape tape;
  tape.backward(mse_loss(net(like(numbers({9, 131}, scale))), like(numbers({9, 3}, scale))));
}

void check_norms(Device device) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    Sequential net = model();
    net.to(dtype);
    net.to(device);
    const auto run = [&](double max_norm) {
      backward(net, 3);
      const double before = norm_of_gradients(net.parameters());
      const double found = clip_grad_norm(net.parameters(), max_norm).to(DType::float64).item();
      CHECK(found == doctest::Approx(before).epsilon(1e-6));
      const double after = norm_of_gradients(net.parameters());
      CHECK(after == doctest::Approx(std::min(before, max_norm)).epsilon(1e-5));
      SGD{net.parameters()}.clear_gradients();
    };
    run(0.25);
    run(1e6);
    run(std::numeric_limits<double>::infinity());
  }
}

}  // namespace

TEST_CASE("clip_grad_norm holds the norm of all gradients, and says what it was") {
  check_norms(Device::cpu());
}

TEST_CASE("CUDA: clip_grad_norm holds the norm of all gradients, and says what it was") {
  if (has_gpu()) {
    check_norms(Device::cuda());
  }
}

// With a gap between the parameters that have gradients, and in 16-bit types.
void check_runs(Device device) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    Sequential net = model();
    static_cast<Linear&>(net[0]).bias().set_trainable(false);
    net.to(dtype);
    net.to(device);
    backward(net, 1);
    CHECK(gradient_runs(net.parameters()).size() == 2);
    const double before = norm_of_gradients(net.parameters());
    const double rounding = dtype == DType::float32 ? 1e-6 : 0.01;
    CHECK(clip_grad_norm(net.parameters(), 0.05).to(DType::float64).item() ==
          doctest::Approx(before).epsilon(1e-5));
    CHECK(norm_of_gradients(net.parameters()) == doctest::Approx(0.05).epsilon(10 * rounding));
  }
}

TEST_CASE("clip_grad_norm over gradients that do not lie side by side") {
  check_runs(Device::cpu());
}

TEST_CASE("CUDA: clip_grad_norm over gradients that do not lie side by side") {
  if (has_gpu()) {
    check_runs(Device::cuda());
  }
}

TEST_CASE("frozen parameters have no part in the norm") {
  Sequential net = model();
  static_cast<Linear&>(net[0]).weight().set_trainable(false);
  backward(net, 1);
  const double before = norm_of_gradients(net.parameters());
  CHECK(clip_grad_norm(net.parameters(), 0.1).item() == doctest::Approx(before).epsilon(1e-6));
  CHECK(norm_of_gradients(net.parameters()) == doctest::Approx(0.1).epsilon(1e-4));
}

TEST_CASE("the number of threads does not change a clipped gradient") {
  std::vector<std::vector<float>> weights;
  const int before = num_threads();
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    Sequential net = model();
    backward(net, 2);
    clip_grad_norm(net.parameters(), 0.01);
    weights.push_back(net.parameters().front().grad().to_vector<float>());
  }
  set_num_threads(before);
  CHECK(weights[0] == weights[1]);
  CHECK(weights[0] == weights[2]);
}

TEST_CASE("a gradient that is no number spoils the others, as in PyTorch") {
  Sequential net = model();
  backward(net, 1);
  Tensor gradient = net.parameters().front().grad();
  gradient.view_rows(0, 1).copy_from(
      Tensor::full({1, 131}, std::numeric_limits<double>::quiet_NaN()));
  CHECK(std::isnan(clip_grad_norm(net.parameters(), 1).item()));
  CHECK(std::isnan(net.parameters().back().grad().to_vector<float>().front()));

  // The step is left out, and the next one is as if nothing had been.
  SGD{net.parameters()}.clear_gradients();
  backward(net, 1);
  const double before = norm_of_gradients(net.parameters());
  CHECK(clip_grad_norm(net.parameters(), 0.1).item() == doctest::Approx(before).epsilon(1e-6));
  CHECK(norm_of_gradients(net.parameters()) == doctest::Approx(0.1).epsilon(1e-4));
}

// By torch's definition: the nearest number within the bounds.
void check_values(Device device) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
    Sequential net = model();
    static_cast<Linear&>(net[0]).bias().set_trainable(false);  // a gap
    net.to(dtype);
    net.to(device);
    backward(net, 2);
    Tensor gradient = net.parameters()[3].grad();
    gradient.copy_from(Tensor::from({HUGE_VALF, -HUGE_VALF, NAN}, {3}).to(dtype));
    std::vector<double> before;
    const auto read = [&](std::vector<double>& to) {
      for (const std::size_t i : {0, 2, 3}) {
        const Tensor host = net.parameters()[i].grad().to(Device::cpu()).to(DType::float64);
        const auto values = host.to_vector<double>();
        to.insert(to.end(), values.begin(), values.end());
      }
    };
    read(before);
    clip_grad_value(net.parameters(), 0x1p-6);
    std::vector<double> after;
    read(after);
    std::size_t held = 0;
    for (std::size_t i = 0; i + 1 < before.size(); ++i) {
      const double expected = std::max(-0x1p-6, std::min(before[i], 0x1p-6));
      held += expected != before[i];
      REQUIRE(after[i] == expected);
    }
    CHECK(std::isnan(after.back()));
    CHECK(held > 100);
    CHECK(held < before.size() / 2);
  }
}

TEST_CASE("clip_grad_value holds each element, infinities included, and leaves NaN") {
  check_values(Device::cpu());
}

TEST_CASE("CUDA: clip_grad_value holds each element, infinities included, and leaves NaN") {
  if (has_gpu()) {
    check_values(Device::cuda());
  }
}

TEST_CASE("clip_grad_value refuses what it cannot do") {
  Sequential net = model();
  CHECK(sentence_of([&] { clip_grad_value(net.parameters(), 1); }) ==
        "clip_grad_value: no parameter has a gradient; call tape.backward(loss) before it");
  backward(net, 1);
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(sentence_of([&] {
            clip_grad_value(net.parameters(), bad);
          }).starts_with("clip_grad_value: clip_value must be above 0, got "));
  }
}

TEST_CASE("clip_grad_norm refuses what it cannot do") {
  Sequential net = model();
  CHECK(sentence_of([&] { clip_grad_norm(net.parameters(), 1); }) ==
        "clip_grad_norm: no parameter has a gradient; call tape.backward(loss) before it");
  check_refused([] { clip_grad_norm(Parameters(1), 1); }, {"clip_grad_norm", "has no values"});
  backward(net, 1);
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(sentence_of([&] {
            clip_grad_norm(net.parameters(), bad);
          }).starts_with("clip_grad_norm: max_norm must be above 0, got "));
  }
}
