// Optimizers: the parameters after each step on recorded gradients.
#include <array>
#include <memory>

#include "checks.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>
#include <sinter/layers/module.h>
#include <sinter/training/optimizers.h>

namespace golden {
namespace {

using sinter::Tensor;

// What an optimizer works on, without a layer.
struct OneParameter : sinter::Module {
  sinter::Parameter p;

  explicit OneParameter(const sinter::Shape& shape) : p(shape, {}) {}
  void members(sinter::Members& m) override { m.parameter("p0", p); }
  Tensor forward(const Tensor& x) override { return x; }
};

template <class O, class Options>
std::function<void()> stepping(const sinter::Parameters& parameters, const Options& options) {
  const auto optimizer = std::make_shared<O>(parameters, options);
  return [optimizer] { optimizer->step(); };
}

sinter::SGDOptions sgd_options(Arguments& args) {
  sinter::SGDOptions o;
  o.lr = args.get("lr", o.lr);
  o.momentum = args.get("momentum", o.momentum);
  o.dampening = args.get("dampening", o.dampening);
  o.weight_decay = args.get("weight_decay", o.weight_decay);
  o.nesterov = args.get("nesterov", o.nesterov);
  return o;
}

template <class Options>
Options adam_options(const std::string& name, Arguments& args) {
  if (args.get("amsgrad", false)) {
    throw NotYet(name + " with amsgrad");
  }
  Options o;
  const auto betas = args.get("betas", std::array{o.beta1, o.beta2});
  o.lr = args.get("lr", o.lr);
  o.beta1 = betas[0];
  o.beta2 = betas[1];
  o.eps = args.get("eps", o.eps);
  o.weight_decay = args.get("weight_decay", o.weight_decay);
  return o;
}

}  // namespace

std::function<void()> make_optimizer(const std::string& name, Arguments& args,
                                     const sinter::Parameters& parameters) {
  if (name == "SGD") {
    return stepping<sinter::SGD>(parameters, sgd_options(args));
  }
  if (name == "Adam") {
    return stepping<sinter::Adam>(parameters, adam_options<sinter::AdamOptions>(name, args));
  }
  if (name == "AdamW") {
    return stepping<sinter::AdamW>(parameters, adam_options<sinter::AdamWOptions>(name, args));
  }
  throw NotYet(name);
}

void check_optimizer(const Case& c, const Setup& setup, Report& report) {
  OneParameter model(c.tensor("p0").shape());
  load_parameters(model, c, "", setup);
  Arguments args(c);
  const std::function<void()> step = make_optimizer(c.op, args, model.parameters());
  args.require_all_read();
  const Tensor gradients = load(c, "grads", setup);
  Tensor after_each = Tensor::empty(gradients.shape(), setup.dtype, setup.device);
  for (std::int64_t i = 0; i < gradients.size(0); ++i) {
    const Tensor value = model.parameters().front().value();
    sinter::Tape tape;
    tape.backward(sinter::sum(value * gradients.view_rows(i, i + 1).reshape(value.shape())));
    step();
    after_each.view_rows(i, i + 1).reshape(value.shape()).copy_from(value.detach());
  }
  report.compare("p", after_each, layer_limit(setup.dtype));
}

}  // namespace golden
