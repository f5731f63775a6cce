// Whole runs of a multilayer perceptron: the loss of each step and the weights at the end.
#include <vector>

#include "checks.h"
#include <sinter/autograd/functions.h>
#include <sinter/layers/sequential.h>

namespace golden {
namespace {

using sinter::Tensor;

void add_activation(sinter::Sequential& model, const std::string& name) {
#define SINTER_GOLDEN_ADD(Type, function)                     \
  if (name == #Type) {                                        \
    model.add(sinter::ActivationLayer<sinter::math::Type>{}); \
    return;                                                   \
  }
  SINTER_ACTIVATIONS(SINTER_GOLDEN_ADD)
#undef SINTER_GOLDEN_ADD
  throw NotYet(name);
}

sinter::Sequential perceptron(const std::vector<std::int64_t>& sizes,
                              const std::string& activation) {
  sinter::Sequential model;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) {
      add_activation(model, activation);
    }
    model.add(sinter::Linear(sizes[i], sizes[i + 1]));
  }
  return model;
}

// Row `i` of a stack of batches.
Tensor batch(const Tensor& stack, std::int64_t i) {
  const std::span<const std::int64_t> sizes = stack.shape().sizes();
  return stack.view_rows(i, i + 1).reshape(sinter::Shape(sizes.subspan(1)));
}

}  // namespace

void check_training(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::Sequential model =
      perceptron(args.get<std::vector<std::int64_t>>("sizes"), args.get<std::string>("activation"));
  load_parameters(model, c, "init/", setup);
  const std::function<void()> step =
      make_optimizer(args.get<std::string>("optimizer"), args, model.parameters());
  args.require_all_read();
  const Tensor x = load(c, "X", setup), labels = load(c, "Y", setup);
  Tensor losses = Tensor::empty({x.size(0)}, setup.dtype, setup.device);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    sinter::Tape tape;
    const Tensor loss = sinter::cross_entropy(model(batch(x, i)), batch(labels, i));
    tape.backward(loss);
    step();
    losses.view_rows(i, i + 1).reshape(sinter::Shape{}).copy_from(loss.detach());
  }
  report.compare("loss", losses, run_limit(setup.dtype));
  for (const sinter::NamedParameter& parameter : model.parameters()) {
    report.compare("final/" + parameter.name, parameter.value(), run_limit(setup.dtype));
  }
}

}  // namespace golden
