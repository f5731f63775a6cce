// Losses: the loss and the gradient that it sends back.
#include "checks.h"
#include <sinter/autograd/tape.h>
#include <sinter/layers/losses.h>

namespace golden {
namespace {

using sinter::Reduction;
using sinter::Tensor;

Reduction reduction(Arguments& args) {
  const auto name = args.get<std::string>("reduction", "mean");
  if (name == "mean") {
    return Reduction::mean;
  }
  if (name == "sum") {
    return Reduction::sum;
  }
  sinter::check(name == "none", "there is no reduction ", name);
  return Reduction::none;
}

template <class Loss>
void check_loss(const Loss& loss, const Case& c, const Setup& setup, Report& report) {
  Tensor x = load(c, "x", setup);
  x.set_requires_grad();
  sinter::Tape tape;
  const Tensor y = loss(x, load(c, "target", setup));
  report.compare("y", y, layer_limit(setup.dtype));
  tape.backward(y, load(c, "g", setup));
  report.compare("grad_x", x.grad(), layer_limit(setup.dtype));
}

}  // namespace

void check_cross_entropy(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::CrossEntropyLoss loss;
  loss.options.reduction = reduction(args);
  loss.options.label_smoothing = args.get<double>("label_smoothing", 0.0);
  loss.options.ignore_index = args.get<std::int64_t>("ignore_index", -100);
  if (args.get<bool>("weighted", false)) {
    loss.options.class_weights = load(c, "weight", setup);
  }
  args.require_all_read();
  check_loss(loss, c, setup, report);
}

void check_nll(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  const sinter::NLLLoss loss{{.reduction = reduction(args)}};
  args.require_all_read();
  check_loss(loss, c, setup, report);
}

template <class Loss>
void check_pointwise_loss(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  Loss loss;
  loss.options.reduction = reduction(args);
  if constexpr (requires { loss.options.delta; }) {
    loss.options.delta = args.get("delta", loss.options.delta);
  }
  if constexpr (requires { loss.options.beta; }) {
    loss.options.beta = args.get("beta", loss.options.beta);
  }
  args.require_all_read();
  check_loss(loss, c, setup, report);
}

template void check_pointwise_loss<sinter::L1Loss>(const Case&, const Setup&, Report&);
template void check_pointwise_loss<sinter::MSELoss>(const Case&, const Setup&, Report&);
template void check_pointwise_loss<sinter::HuberLoss>(const Case&, const Setup&, Report&);
template void check_pointwise_loss<sinter::SmoothL1Loss>(const Case&, const Setup&, Report&);
template void check_pointwise_loss<sinter::BCEWithLogitsLoss>(const Case&, const Setup&, Report&);
template void check_pointwise_loss<sinter::KLDivLoss>(const Case&, const Setup&, Report&);

}  // namespace golden
