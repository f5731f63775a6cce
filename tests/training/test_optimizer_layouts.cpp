// What an optimizer does when its parameters move between steps: to another type, or to another
// layout because a different optimizer updates some of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/sinter.h>

using namespace sinter;

namespace {

// The loss gives the parameters the gradients that it is called with.
struct Three : Module {
  Parameter a, b, c;
  explicit Three(const std::vector<std::int64_t>& sizes)
      : a({sizes[0]}, {-1.0, 1.0}), b({sizes[1]}, {-1.0, 1.0}), c({sizes[2]}, {-1.0, 1.0}) {}
  void members(Members& m) override {
    m.parameter("a", a);
    m.parameter("b", b);
    m.parameter("c", c);
  }
  Tensor forward(const Tensor& x) override {
    const std::int64_t to_b = a.value().numel();
    const std::int64_t to_c = to_b + b.value().numel();
    return sum(a.value() * x.view_rows(0, to_b)) + sum(b.value() * x.view_rows(to_b, to_c)) +
           sum(c.value() * x.view_rows(to_c, x.numel()));
  }
};

// Padded differently in float32 and float64, and equally: then offsets do not tell the types.
const std::vector<std::vector<std::int64_t>> every_sizes{{5, 70, 99}, {64, 128, 192}};

double gradient(int step, std::size_t element) {
  return std::sin(1.0 + 0.7 * static_cast<double>(element) + 2.3 * step);
}

// Without model.parameters(), which lays them out.
void backward(Three& model, int step) {
  const std::int64_t elements =
      model.a.value().numel() + model.b.value().numel() + model.c.value().numel();
  std::vector<double> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = gradient(step, i);
  }
  const Tensor gradients = Tensor::from(values, {elements});
  Tape tape;
  tape.backward(model(gradients.to(model.a.value().dtype())));
}

std::vector<double> all_values(const Three& model) {
  std::vector<double> out;
  for (const Parameter* parameter : {&model.a, &model.b, &model.c}) {
    const auto values = parameter->value().detach().to(DType::float64).to_vector<double>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// Kingma and Ba's algorithm 1, an element at a time in float64.
struct Reference {
  std::vector<double> values;
  std::vector<double> m = std::vector<double>(values.size());
  std::vector<double> v = std::vector<double>(values.size());
  int steps = 0;

  void step(double lr, int gradient_step) {
    ++steps;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = gradient(gradient_step, i);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      values[i] -= lr * (m[i] / (1 - std::pow(0.9, steps))) /
                   (std::sqrt(v[i] / (1 - std::pow(0.999, steps))) + 1e-8);
    }
  }
};

double largest_difference(const Three& model, const Reference& reference) {
  const std::vector<double> values = all_values(model);
  REQUIRE(values.size() == reference.values.size());
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(values[i] - reference.values[i]));
  }
  return largest;
}

bool lie_side_by_side(const Parameters& parameters) {
  const ParameterState& first = *parameters.front().state;
  std::int64_t offset = first.offset;
  for (const NamedParameter& parameter : parameters) {
    const ParameterState& state = *parameter.state;
    if (!state.flat || state.flat != first.flat || state.offset != offset) {
      return false;
    }
    offset += padded_numel(state);
  }
  return true;
}

}  // namespace

TEST_CASE("Adam goes on exactly where it was after moves to other types and layouts") {
  for (const auto& sizes : every_sizes) {
    CAPTURE(sizes[0]);
    manual_seed(7);
    Three model(sizes);
    const Parameters all = model.parameters();
    constexpr double lr = 0.05;
    Adam adam{all, {.lr = lr}};
    Reference reference{.values = all_values(model)};
    int now = 0;
    // Three steps; `move` happens between the first one's gradients and its update.
    const auto steps = [&](const char* when, const std::function<void()>& move = {}) {
      CAPTURE(when);
      for (int i = 0; i < 3; ++i) {
        CAPTURE(i);
        backward(model, ++now);
        if (i == 0 && move) {
          move();
        }
        adam.step();
        reference.step(lr, now);
        // A step is about 0.05; forgotten state, or another element's, would be off by that.
        CHECK(largest_difference(model, reference) < 1e-5);
        CHECK(lie_side_by_side(all));
      }
    };
    const auto both_ways = [&] {
      model.to(DType::float64);
      steps("in float64");
      model.to(DType::float32);
      steps("back in float32");
    };
    steps("at first");
    both_ways();
    move_parameters(all, Device::cpu(), DType::float64);
    steps("moved to float64 and not laid out");
    model.to(DType::float32);
    steps("in float32");

    // The last one puts a and c where they belong, but into another buffer than b.
    Three other(sizes);
    const std::vector<Parameters> subsets{{all[1]},
                                          {all[2], all[0]},
                                          {all[2], all[1], all[0]},
                                          {all[0], other.parameters()[1], all[2]}};
    for (const Parameters& subset : subsets) {
      steps("some laid out anew", [&] { lay_out_flat(subset); });
      steps("some laid out anew, then the model", [&] {
        lay_out_flat(subset);
        model.parameters();
      });
      lay_out_flat(subset);
      both_ways();
    }

    // A second optimizer for some of them, whose steps lay these out for itself.
    SGD sgd{{all[2], all[0]}, {.lr = 0.5, .momentum = 0.9}};
    std::vector<double> momentum(reference.values.size());
    for (int round = 0; round < 3; ++round) {
      backward(model, ++now);
      sgd.step();
      const auto in_b = [&](std::size_t i) {
        const auto at = static_cast<std::int64_t>(i);
        return at >= sizes[0] && at < sizes[0] + sizes[1];
      };
      for (std::size_t i = 0; i < momentum.size(); ++i) {
        if (!in_b(i)) {
          momentum[i] = 0.9 * momentum[i] + gradient(now, i);
          reference.values[i] -= 0.5 * momentum[i];
        }
      }
      adam.clear_gradients();
      CHECK(largest_difference(model, reference) < 1e-5);
      steps("after another optimizer's step");
      both_ways();
    }
    CHECK(adam.steps() == reference.steps);
  }
}

TEST_CASE("an optimizer whose parameters were laid out anew keeps its state where it is") {
  Three model(every_sizes[0]);
  const Parameters all = model.parameters();
  Adam adam{all};
  // Blocks of memory that a step takes.
  const auto blocks = [&](const Parameters& laid_out_anew = {}) {
    backward(model, 1);
    lay_out_flat(laid_out_anew);
    const std::uint64_t before = pool_stats(Device::cpu()).requests;
    adam.step();
    return pool_stats(Device::cpu()).requests - before;
  };
  CHECK(blocks() == 2);  // the state
  CHECK(blocks() == 0);
  CHECK(blocks({all[2], all[0]}) == 2);  // values and gradients, side by side again
  CHECK(blocks() == 0);
  model.to(DType::float64);
  CHECK(blocks() >= 2);  // the state in another type
  CHECK(blocks() == 0);
}
