// The whole of sinter from the umbrella header alone: a small model learns random data by heart.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <sinter/sinter.h>

namespace {

using namespace sinter;

// Any numbers will do; these are the same everywhere.
std::vector<float> numbers(int count) {
  std::vector<float> values;
  std::uint32_t state = 1;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(state >> 8) / 16777216.0f - 0.5f);
  }
  return values;
}

}  // namespace

int main() {
  std::puts(build_info().c_str());
  manual_seed(7);
  Sequential model{Flatten{},
                   Linear{16, 32},
                   ReLU{.drop_p = 0.1f},
                   Linear{32, 16},
                   LeakyReLU{.act = {.negative_slope = 0.1f}},
                   Linear{16, 4}};
  const Tensor x = Tensor::from(numbers(8 * 16), {8, 4, 4});
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3}, {8});

  SGD optimizer{model.parameters(), {.lr = 0.05f, .momentum = 0.9f}};
  double first = 0;
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    Tape tape;
    const Tensor loss = cross_entropy(model(x), labels);
    tape.backward(loss);
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  std::printf("loss %.4f -> %.4f\n", first, last);
  return last < 0.5 * first ? 0 : 1;
}
