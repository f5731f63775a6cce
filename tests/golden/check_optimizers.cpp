// Optimizers: the parameters after each step on recorded gradients.
#include <array>
#include <memory>

#include "checks.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>
#include <sinter/layers/module.h>
#include <sinter/training/clip.h>
#include <sinter/training/optimizers.h>
#include <sinter/training/rule_optimizers.h>

namespace golden {
namespace {

using sinter::Tensor;

// What an optimizer works on, without a layer: parameters of the shapes of a case's tensors.
struct FreeParameters : sinter::Module {
  std::vector<std::string> names;
  std::vector<sinter::Parameter> values;

  FreeParameters(const Case& c, std::vector<std::string> names_in) : names(std::move(names_in)) {
    for (const std::string& name : names) {
      values.emplace_back(c.tensor(name).shape(), sinter::Initializer{});
    }
  }
  void members(sinter::Members& m) override {
    for (std::size_t i = 0; i < names.size(); ++i) {
      m.parameter(names[i], values[i]);
    }
  }
  Tensor forward(const Tensor& x) override { return x; }
};

// Gives a parameter this gradient: what it is multiplied with.
Tensor with_gradient(const sinter::NamedParameter& parameter, const Tensor& gradient) {
  return sinter::sum(parameter.value() * gradient.reshape(parameter.value().shape()));
}

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
Options adam_options(Arguments& args) {
  Options o;
  if constexpr (requires { o.amsgrad; }) {
    o.amsgrad = args.get("amsgrad", o.amsgrad);
  }
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
    return stepping<sinter::Adam>(parameters, adam_options<sinter::AdamOptions>(args));
  }
  if (name == "AdamW") {
    return stepping<sinter::AdamW>(parameters, adam_options<sinter::AdamWOptions>(args));
  }
  if (name == "NAdam") {
    return stepping<sinter::NAdam>(parameters, adam_options<sinter::NAdamOptions>(args));
  }
  if (name == "RAdam") {
    return stepping<sinter::RAdam>(parameters, adam_options<sinter::RAdamOptions>(args));
  }
  if (name == "RMSprop") {
    sinter::RMSpropOptions o;
    o.lr = args.get("lr", o.lr);
    o.alpha = args.get("alpha", o.alpha);
    o.momentum = args.get("momentum", o.momentum);
    return stepping<sinter::RMSprop>(parameters, o);
  }
  if (name == "Adagrad") {
    sinter::AdagradOptions o;
    o.lr = args.get("lr", o.lr);
    return stepping<sinter::Adagrad>(parameters, o);
  }
  throw NotYet(name);
}

void check_optimizer(const Case& c, const Setup& setup, Report& report) {
  FreeParameters model(c, {"p0"});
  load_parameters(model, c, "", setup);
  Arguments args(c);
  const std::function<void()> step = make_optimizer(c.op, args, model.parameters());
  args.require_all_read();
  const Tensor gradients = load(c, "grads", setup);
  Tensor after_each = Tensor::empty(gradients.shape(), setup.dtype, setup.device);
  for (std::int64_t i = 0; i < gradients.size(0); ++i) {
    const sinter::NamedParameter parameter = model.parameters().front();
    sinter::Tape tape;
    tape.backward(with_gradient(parameter, gradients.view_rows(i, i + 1)));
    step();
    after_each.view_rows(i, i + 1)
        .reshape(parameter.value().shape())
        .copy_from(parameter.value().detach());
  }
  report.compare("p", after_each, layer_limit(setup.dtype));
}

void check_clip_grad_norm(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  const auto max_norm = args.get<double>("max_norm");
  args.require_all_read();
  FreeParameters model(c, {"g0", "g1"});
  model.to(setup.dtype);
  model.to(setup.device);
  const sinter::Parameters parameters = model.parameters();
  sinter::Tape tape;
  tape.backward(with_gradient(parameters[0], load(c, "g0", setup)) +
                with_gradient(parameters[1], load(c, "g1", setup)));
  const Tensor norm = sinter::clip_grad_norm(parameters, max_norm);
  report.compare("norm", norm.to(setup.dtype), layer_limit(setup.dtype));
  report.compare("clipped0", parameters[0].grad(), layer_limit(setup.dtype));
  report.compare("clipped1", parameters[1].grad(), layer_limit(setup.dtype));
}

}  // namespace golden
