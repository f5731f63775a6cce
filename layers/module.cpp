#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>
#include <sinter/layers/module_call.h>
#include <sinter/layers/table.h>

namespace sinter {
namespace {

thread_local const detail::CallObserver* observer = nullptr;

std::string join(const std::string& prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : prefix + "." + std::string(name);
}

// No model is this deep; one that names itself as a child has no end.
void check_depth(int depth, const std::string& place) {
  check(depth <= 100, "a module contains itself: ", place);
}

struct ModuleWalk : Members {
  const std::function<void(const std::string&, Module&)>& visit;
  std::string prefix;

  explicit ModuleWalk(const std::function<void(const std::string&, Module&)>& v) : visit(v) {}
  int depth = 0;
  void walk(Module& module) {
    check_depth(++depth, prefix);
    visit(prefix, module);
    module.members(*this);
    --depth;
  }
  void child(std::string_view name, Module& module) override {
    std::string outer = std::exchange(prefix, join(prefix, name));
    walk(module);
    prefix = std::move(outer);
  }
  void parameter(std::string_view, Parameter&) override {}
};

// Goes through everything in a module, and knows by which names it came there.
struct NamedWalk : Members {
  std::string prefix;
  int depth = 0;

  void child(std::string_view name, Module& module) override {
    check_depth(++depth, prefix);
    std::string outer = std::exchange(prefix, join(prefix, name));
    module.members(*this);
    prefix = std::move(outer);
    --depth;
  }
  void parameter(std::string_view, Parameter&) override {}
};

struct ParameterWalk : NamedWalk {
  Parameters found;

  void parameter(std::string_view name, Parameter& parameter) override {
    // A parameter that two places share is one, under the name of the first, as in torch.
    const bool known = std::ranges::any_of(
        found, [&](const NamedParameter& other) { return other.state == parameter.state(); });
    if (parameter.present() && !known) {
      const std::string full = join(prefix, name);
      check(std::ranges::none_of(found, [&](const auto& other) { return other.name == full; }),
            "two parameters of the model are named ", full, "; name its members apart");
      found.push_back({full, parameter.state()});
    }
  }
};

Parameters collect(Module& module) {
  ParameterWalk walk;
  module.members(walk);
  return std::move(walk.found);
}

using UseBuffer = std::function<void(const std::string& name, Buffer& buffer)>;

struct BufferWalk : NamedWalk {
  const UseBuffer& use;
  std::set<const Buffer*> seen;  // one that two places share counts once, as a parameter does

  explicit BufferWalk(const UseBuffer& u) : use(u) {}
  void buffer(std::string_view name, Buffer& buffer) override {
    if (buffer.present() && seen.insert(&buffer).second) {
      use(join(prefix, name), buffer);
    }
  }
};

void for_each_buffer(Module& module, const UseBuffer& use) {
  BufferWalk walk(use);
  module.members(walk);
}

// Threads may share a model that is in eval mode, so what stays as it is is not written.
void set_mode(bool& training, bool on) {
  if (training != on) {
    training = on;
  }
}

struct OwnParameters : Members {
  std::int64_t elements = 0;
  std::size_t bytes = 0;

  void child(std::string_view, Module&) override {}
  void parameter(std::string_view, Parameter& parameter) override {
    elements += parameter.value().numel();
    bytes += parameter.value().bytes();
  }
};

}  // namespace

namespace detail {

void for_each_module(Module& root, const std::function<void(const std::string&, Module&)>& visit) {
  ModuleWalk(visit).walk(root);
}

const CallObserver* call_observer() { return observer; }

void observe_calls(Module& root, const Shape& input, std::optional<DType> dtype,
                   const CallObserver& observe) {
  struct Observed {
    const CallObserver* outer;
    explicit Observed(const CallObserver& inner) : outer(std::exchange(observer, &inner)) {}
    ~Observed() { observer = outer; }
  };
  const Parameters all = root.parameters();
  const DType usual = all.empty() ? DType::float32 : all.front().state->dtype;
  const Device device = all.empty() ? Device::cpu() : all.front().state->device;
  const EvalScope eval(root);
  const Observed observed(observe);
  root(Tensor::zeros(input, dtype.value_or(usual), device));
}

}  // namespace detail

struct Module::Origin {
  std::once_flag once;
  std::optional<Generator> generator;

  const Generator& get() {
    std::call_once(once, [this] { generator = next_generator(); });
    return *generator;
  }
};

Module::Module() : origin_(std::make_shared<Origin>()) {}

// A copy is a model of its own: it starts from the same random state, which its first use shares
// out among its parts.
Module::Module(const Module& other)
    : training_(other.training_),
      origin_(other.origin_),
      generator_(other.generator_ ? std::make_shared<Generator>(*other.generator_) : nullptr) {}

Module& Module::operator=(const Module& other) {
  training_ = other.training_;
  attached_ = false;
  origin_ = other.origin_;
  generator_ = other.generator_ ? std::make_shared<Generator>(*other.generator_) : nullptr;
  return *this;
}

Tensor Module::operator()(const Tensor& x) {
  attach();
  const detail::ModuleCall call(*this);
  Tensor y = forward(x);
  if (observer != nullptr) {
    (*observer)(*this, x, y);
  }
  return y;
}

void Module::members(Members&) {}

std::string Module::text() const { return "module"; }

void Module::attach() {
  if (!attached_ || !generator_) {
    if (!origin_) {  // moved from, and now in use again
      origin_ = std::make_shared<Origin>();
    }
    adopt(generator_ ? generator_ : std::make_shared<Generator>(origin_->get()));
  }
}

void Module::adopt(const std::shared_ptr<Generator>& generator) {
  for (const NamedParameter& parameter : collect(*this)) {
    parameter.state->initialise(*generator);
  }
  detail::for_each_module(*this, [&](const std::string&, Module& module) {
    module.generator_ = generator;
    module.attached_ = true;
  });
}

void Module::train(bool on) {
  detail::for_each_module(*this,
                          [on](const std::string&, Module& module) { module.training_ = on; });
}

void Module::to(Device device) {
  require_available(device);
  const Parameters all = parameters();
  for (const NamedParameter& parameter : all) {
    move_parameters({parameter}, device, parameter.state->dtype);
  }
  for_each_buffer(*this, [device](const std::string&, Buffer& buffer) { buffer.to(device); });
  lay_out_flat(all);
}

void Module::to(DType dtype) {
  check(is_floating(dtype), "Module::to: parameters need a floating type, got ", dtype);
  const Parameters all = parameters();
  for (const NamedParameter& parameter : all) {
    move_parameters({parameter}, parameter.state->device, dtype);
  }
  for_each_buffer(*this, [dtype](const std::string&, Buffer& buffer) { buffer.to(dtype); });
  lay_out_flat(all);
}

Parameters Module::parameters() {
  // A part deep inside may have grown since.
  detail::for_each_module(
      *this, [this](const std::string&, Module& part) { attached_ = attached_ && part.attached_; });
  attach();
  Parameters all = collect(*this);
  lay_out_flat(all);
  return all;
}

Buffers Module::buffers() {
  Buffers all;
  for_each_buffer(*this, [&all](const std::string& name, Buffer& buffer) {
    check(std::ranges::none_of(all, [&](const NamedBuffer& other) { return other.name == name; }),
          "two buffers of the model are named ", name, "; name its members apart");
    all.push_back({name, buffer.value()});
  });
  return all;
}

const std::shared_ptr<Generator>& Module::generator() {
  attach();
  return generator_;
}

void Module::set_generator(std::shared_ptr<Generator> generator) {
  check(generator != nullptr, "Module::set_generator: the generator is null");
  adopt(generator);
}

std::string Module::summary(const Shape& input, std::optional<DType> dtype) {
  std::map<const Module*, Shape> outputs;
  detail::observe_calls(*this, input, dtype,
                        [&](const Module& module, const Tensor&, const Tensor& output) {
                          outputs[&module] = output.shape();
                        });
  const Parameters all = parameters();
  Table table({"name", "layer", "output", "parameters", "bytes"});
  std::size_t bytes = 0;
  detail::for_each_module(*this, [&](const std::string& name, Module& module) {
    OwnParameters own;
    module.members(own);
    bytes += own.bytes;
    const auto output = outputs.find(&module);
    if (!name.empty()) {
      table.row({name, module.text(), output == outputs.end() ? "-" : output->second.str(),
                 std::to_string(own.elements), std::to_string(own.bytes)});
    }
  });
  table.row({"", "total for input " + input.str(), outputs[this].str(), std::to_string(numel(all)),
             std::to_string(bytes)});
  return table.str();
}

Tensor Module::predict(const Tensor& x) {
  const EvalScope eval(*this);
  return argmax((*this)(x));
}

Tensor Module::predict_probabilities(const Tensor& x) {
  const EvalScope eval(*this);
  return softmax((*this)(x));
}

struct EvalScope::State {
  NoTape no_tape;
  std::vector<std::pair<Module*, bool>> modes;
};

EvalScope::EvalScope(Module& module) : state_(std::make_unique<State>()) {
  detail::for_each_module(module, [this](const std::string&, Module& part) {
    state_->modes.emplace_back(&part, part.training_);
    set_mode(part.training_, false);
  });
}

EvalScope::~EvalScope() {
  for (const auto& [module, training] : state_->modes) {
    set_mode(module->training_, training);
  }
}

}  // namespace sinter
