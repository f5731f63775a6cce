#include <sinter/autograd/functions.h>
#include <sinter/training/loader.h>
#include <sinter/training/trainer.h>

namespace sinter {
namespace {

std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const auto guesses = argmax(logits).to_vector<std::int64_t>();
  const auto truth = labels.to(DType::int64).to_vector<std::int64_t>();
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    correct += guesses[i] == truth[i] ? 1 : 0;
  }
  return correct;
}

}  // namespace

Evaluation Trainer::evaluate(const Dataset& data, std::int64_t batch_size) {
  const EvalScope eval(model_);
  Evaluation out;
  double weighted = 0;
  std::int64_t correct = 0;
  bool has_labels = true;
  DataLoader loader(data, {.batch_size = batch_size, .shuffle = false, .device = device()});
  for (const auto& [inputs, targets] : loader) {
    const Tensor output = model_(inputs);
    const std::int64_t items = inputs.size(0);
    weighted += loss_(output, targets).item() * static_cast<double>(items);
    out.items += items;
    has_labels = has_labels && !is_floating(targets.dtype()) && output.rank() == 2 &&
                 output.size(1) > 0 && targets.shape() == Shape{output.size(0)};
    if (has_labels) {
      correct += count_correct(output, targets);
    }
  }
  out.loss = weighted / static_cast<double>(out.items);
  if (has_labels) {
    out.accuracy = static_cast<double>(correct) / static_cast<double>(out.items);
  }
  return out;
}

}  // namespace sinter
