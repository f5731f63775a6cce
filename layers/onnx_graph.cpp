#include <algorithm>
#include <utility>

#include <sinter/layers/onnx_graph.h>
#include <sinter/layers/protobuf.h>

namespace sinter {

std::string Module::onnx(OnnxGraph& graph, const std::string&) {
  throw Error(sinter::text("export_onnx: ", graph.where(),
                           " has no ONNX form; let it override Module::onnx"));
}

OnnxGraph::OnnxGraph(Module& model, const Shape& input, std::optional<DType> type,
                     std::set<std::string> taken_names)
    : taken_(std::move(taken_names)), current_(&model) {
  detail::observe_calls(
      model, input, type, [this](const Module& module, const Tensor& x, const Tensor& y) {
        const auto [call, is_new] =
            calls_.try_emplace(&module, Call{{x.shape(), x.dtype()}, false});
        call->second.ambiguous |= !is_new && (call->second.input.shape != x.shape() ||
                                              call->second.input.dtype != x.dtype());
        output_ = {y.shape(), y.dtype()};  // the whole model's comes last
      });
  detail::for_each_module(model, [this](const std::string& name, Module& module) {
    places_.try_emplace(&module, name);
  });
  for (const NamedParameter& parameter : model.parameters()) {
    parameters_[parameter.state.get()] = parameter.name;
    taken_.insert(parameter.name);
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    buffers_[buffer.value.address()] = buffer.name;
    taken_.insert(buffer.name);
  }
}

std::string OnnxGraph::where() const {
  const std::string& place = places_.at(current_);
  return (place.empty() ? "the model, " : "layer " + place + " of the model, ") + current_->text() +
         ",";
}

std::string OnnxGraph::run(Module& module, const std::string& x) {
  check(places_.contains(&module), "export_onnx: ", where(), " runs a module, ", module.text(),
        ", that its members() do not name");
  const Module* const outer = std::exchange(current_, &module);
  std::string y = module.onnx(*this, x);
  current_ = outer;
  return y;
}

void OnnxGraph::refuse_derived() const {
  throw Error(text("export_onnx: ", where(),
                   " is of a class derived from that layer, and may compute something else; let it "
                   "override Module::onnx"));
}

namespace {

// The fields of a node that its attributes are.
std::string encoded(std::initializer_list<OnnxAttribute> attributes) {
  constexpr std::int64_t real = 1, integer = 2, integers = 7;
  ProtobufMessage out;
  for (const auto& [name, value] : attributes) {
    ProtobufMessage attribute;
    attribute.text(1, name);
    if (const auto* const number = std::get_if<double>(&value)) {
      attribute.real(2, static_cast<float>(*number)).integer(20, real);
    } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
      attribute.integer(3, *whole).integer(20, integer);
    } else {
      for (const std::int64_t size : std::get<std::span<const std::int64_t>>(value)) {
        attribute.integer(8, size);
      }
      attribute.integer(20, integers);
    }
    out.message(5, attribute);
  }
  return out.bytes();
}

}  // namespace

std::string OnnxGraph::node(std::string_view op, std::initializer_list<std::string_view> inputs,
                            std::initializer_list<OnnxAttribute> attributes) {
  return node(op, inputs, attributes, 1).front();
}

std::vector<std::string> OnnxGraph::node(std::string_view op,
                                         std::initializer_list<std::string_view> inputs,
                                         std::initializer_list<OnnxAttribute> attributes,
                                         int results) {
  OnnxNode& made = nodes_.emplace_back(OnnxNode{
      fresh(op), std::string(op), {inputs.begin(), inputs.end()}, {}, encoded(attributes)});
  while (!made.inputs.empty() && made.inputs.back().empty()) {
    made.inputs.pop_back();
  }
  made.outputs.push_back(made.name);
  for (int i = 1; i < results; ++i) {
    made.outputs.push_back(fresh(op));
  }
  return made.outputs;
}

std::string OnnxGraph::fresh(std::string_view what) {
  std::string stem = places_.at(current_);
  stem += stem.empty() ? "" : "/";
  stem += what;
  std::string name = stem;
  for (int i = 1; !taken_.insert(name).second; ++i) {
    name = stem + "_" + std::to_string(i);
  }
  return name;
}

std::string OnnxGraph::initializer(const std::string& name, const Tensor& value) {
  if (written_.insert(name).second) {
    initializers_.push_back({name, value.detach()});
  }
  return name;
}

std::string OnnxGraph::parameter(const Parameter& parameter) {
  if (!parameter.present()) {
    return {};
  }
  const auto known = parameters_.find(parameter.state().get());
  check(known != parameters_.end(), "export_onnx: ", where(), " uses a parameter of shape ",
        parameter.state()->shape, " that no members() names");
  return initializer(known->second, parameter.value());
}

std::string OnnxGraph::buffer(const Buffer& buffer) {
  if (!buffer.present()) {
    return {};
  }
  const auto known = buffers_.find(buffer.value().address());
  check(known != buffers_.end(), "export_onnx: ", where(), " uses a buffer of shape ",
        buffer.value().shape(), " that no members() names");
  return initializer(known->second, buffer.value());
}

std::string OnnxGraph::constant(const Tensor& value) {
  return initializer(fresh("constant"), value);
}

std::string OnnxGraph::number(double value) { return constant(Tensor::full({}, value)); }

std::string OnnxGraph::sizes(std::span<const std::int64_t> values) {
  return constant(Tensor::from(values, {static_cast<std::int64_t>(values.size())}));
}

const OnnxValue& OnnxGraph::input_of(const Module& module) const {
  const auto call = calls_.find(&module);
  check(call != calls_.end(), "export_onnx: ", where(),
        " was not called as layer(x) when the model ran, so the shape of its input is not known");
  check(!call->second.ambiguous, "export_onnx: ", where(),
        " is called with inputs of several shapes, of which its ONNX form can have one only");
  return call->second.input;
}

void OnnxGraph::name_output(const std::string& y, const std::string& name) {
  const bool computed = std::ranges::any_of(
      nodes_, [&](const OnnxNode& made) { return std::ranges::count(made.outputs, y) > 0; });
  if (!computed) {  // the model gives what it got, or one of its parameters
    nodes_.push_back({fresh("Identity"), "Identity", {y}, {name}, {}});
    return;
  }
  for (OnnxNode& made : nodes_) {
    std::ranges::replace(made.inputs, y, name);
    std::ranges::replace(made.outputs, y, name);
  }
}

}  // namespace sinter
