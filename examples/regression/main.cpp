// Learns the numbers in a table: the strength of concrete by a made-up formula, from what is in it
// and its age. Columns are scaled by their mean and spread, as a table of one's own should be.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <sinter/sinter.h>

using namespace sinter;

namespace {

constexpr std::int64_t columns = 4;  // cement, water, sand (kg a cubic metre), age (days)

struct Table {
  std::vector<float> features;
  std::vector<float> strength;  // MPa
};

// A number in [0, 1), the same on every machine.
double uniform(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state / 4294967296.0;
}

// Less water and more age make it stronger; the measurement is off by 1 MPa or so.
Table make_table(std::int64_t rows, std::uint32_t seed) {
  Table table;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double cement = 150 + 350 * uniform(seed), water = 130 + 90 * uniform(seed);
    const double sand = 600 + 350 * uniform(seed), age = 1 + 180 * uniform(seed);
    const double ratio = cement / water, packing = std::exp(-std::pow((sand - 760) / 150, 2));
    const double noise = 2 * (uniform(seed) + uniform(seed) - 1);
    table.features.insert(table.features.end(),
                          {static_cast<float>(cement), static_cast<float>(water),
                           static_cast<float>(sand), static_cast<float>(age)});
    table.strength.push_back(
        static_cast<float>(14 * std::pow(ratio, 1.2) * std::log1p(age) / 5 + 8 * packing + noise));
  }
  return table;
}

struct Scale {
  double mean = 0, spread = 1;
};

// Of every `step`th number from `first` on.
Scale scale_of(const std::vector<float>& numbers, std::size_t first, std::size_t step) {
  double sum = 0, squares = 0, count = 0;
  for (std::size_t i = first; i < numbers.size(); i += step, ++count) {
    sum += numbers[i];
    squares += static_cast<double>(numbers[i]) * numbers[i];
  }
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean)};
}

TensorDataset scaled(const Table& table, const std::vector<Scale>& of_column, Scale of_strength) {
  const auto rows = static_cast<std::int64_t>(table.strength.size());
  std::vector<float> x = table.features, y = table.strength;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Scale& scale = of_column[i % columns];
    x[i] = static_cast<float>((x[i] - scale.mean) / scale.spread);
  }
  for (float& value : y) {
    value = static_cast<float>((value - of_strength.mean) / of_strength.spread);
  }
  return {Tensor::from(x, {rows, columns}), Tensor::from(y, {rows, 1})};
}

}  // namespace

int main() {
  manual_seed(1);
  const Table seen = make_table(4000, 1), unseen = make_table(1000, 2);
  // What the scales are taken from is what may be learnt from.
  std::vector<Scale> of_column;
  for (std::size_t column = 0; column < columns; ++column) {
    of_column.push_back(scale_of(seen.features, column, columns));
  }
  const Scale of_strength = scale_of(seen.strength, 0, 1);

  Sequential model{Linear{columns, 64}, Residual{RMSNorm{64}, Linear{64, 128}, SwiGLU{}},
                   RMSNorm{64}, Linear{64, 1}};
  const Device device = Device::best();
  model.to(device);
  AdamW optimizer{model.parameters(), {.lr = 0.01, .weight_decay = 0.01}};
  Trainer trainer{model, MSELoss{}, optimizer};
  const TensorDataset validation = scaled(unseen, of_column, of_strength);
  trainer.fit(scaled(seen, of_column, of_strength), {.epochs = 30,
                                                     .batch_size = 64,
                                                     .schedule = cosine(0.1),
                                                     .max_grad_norm = 1.0,
                                                     .progress = false});
  const double error = of_strength.spread * std::sqrt(trainer.evaluate(validation).loss);
  std::printf("root mean square error on unseen rows: %.2f MPa, of a spread of %.1f MPa\n", error,
              of_strength.spread);
  return error < 1.5 ? 0 : 1;
}
