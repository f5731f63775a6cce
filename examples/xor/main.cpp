// Learns exclusive or with a training loop written by hand: what Trainer does, in the open.
#include <cstdio>

#include <sinter/sinter.h>

using namespace sinter;

int main() {
  manual_seed(7);
  const Tensor inputs = Tensor::from<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const Tensor labels = Tensor::from<std::int64_t>({0, 1, 1, 0}, {4});

  Sequential model{Linear{2, 8}, Tanh{}, Linear{8, 2}};
  Adam optimizer{model.parameters(), {.lr = 0.05}};

  for (int step = 0; step < 200; ++step) {
    Tape tape;  // records while it lives
    const Tensor loss = cross_entropy(model(inputs), labels);
    tape.backward(loss);
    optimizer.step();  // consumes the gradients: the next backward overwrites them
    if (step % 50 == 0) {
      std::printf("step %3d  loss %.4f\n", step, loss.item());
    }
  }

  const auto classes = model.predict(inputs).to_vector<std::int64_t>();
  for (int i = 0; i < 4; ++i) {
    std::printf("%d xor %d = %d\n", i / 2, i % 2, static_cast<int>(classes[i]));
  }
  return classes == labels.to_vector<std::int64_t>() ? 0 : 1;
}
