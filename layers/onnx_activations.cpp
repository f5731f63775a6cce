// What each activation is in ONNX. One without a form here can be trained and used, but not
// exported; a test asks for all of them.
#include <numbers>

#include <sinter/layers/onnx_graph.h>

namespace sinter {
namespace {

// Nodes for the value x.
struct At {
  OnnxGraph& graph;
  const std::string& x;

  std::string op(const char* name, std::initializer_list<OnnxAttribute> attributes = {}) const {
    return graph.node(name, {x}, attributes);
  }
  std::string of(const char* name, const std::string& a) const { return graph.node(name, {a}); }
  std::string of(const char* name, const std::string& a, const std::string& b) const {
    return graph.node(name, {a, b});
  }
  std::string of(const char* name, const std::string& a, double b) const {
    return of(name, a, graph.number(b));
  }
};

std::string form(At at, const math::Sigmoid&) { return at.op("Sigmoid"); }
std::string form(At at, const math::LogSigmoid&) {
  return at.of("Neg", at.of("Softplus", at.op("Neg")));
}
std::string form(At at, const math::Tanh&) { return at.op("Tanh"); }
std::string form(At at, const math::ReLU&) { return at.op("Relu"); }
std::string form(At at, const math::GELU&) {
  const std::string erf = at.of("Erf", at.of("Mul", at.x, 1 / std::numbers::sqrt2));
  const std::string half = at.of("Mul", at.x, 0.5);
  return at.of("Mul", half, at.of("Add", erf, 1));
}
std::string form(At at, const math::GELUTanh&) {
  const std::string square = at.of("Mul", at.x, at.x);
  const std::string slope =
      at.of("Add", at.of("Mul", square, math::GELUTanh::b), math::GELUTanh::a);
  return at.of("Mul", at.x, at.of("Sigmoid", at.of("Mul", at.x, slope)));
}
std::string form(At at, const math::SiLU&) { return at.of("Mul", at.x, at.op("Sigmoid")); }
std::string clip(At at, double low, double high) {
  return at.graph.node("Clip", {at.x, at.graph.number(low), at.graph.number(high)});
}
std::string form(At at, const math::ReLU6&) { return clip(at, 0, 6); }
std::string form(At at, const math::Hardsigmoid&) {
  return at.op("HardSigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}
std::string form(At at, const math::Hardtanh& act) { return clip(at, act.min_val, act.max_val); }
std::string form(At at, const math::Hardswish&) { return at.op("HardSwish"); }
std::string form(At at, const math::SELU&) {
  return at.op("Selu",
               {{"alpha", math::SELU::sa / math::SELU::s}, {"gamma", double{math::SELU::s}}});
}
std::string form(At at, const math::Mish&) {
  return at.of("Mul", at.x, at.of("Tanh", at.op("Softplus")));
}
std::string form(At at, const math::Softplus& act) {
  const std::string scaled = act.beta == 1 ? at.x : at.of("Mul", at.x, act.beta);
  const std::string soft = at.of("Softplus", scaled);
  const std::string y = act.beta == 1 ? soft : at.of("Div", soft, act.beta);
  if (act.threshold >= 20) {
    return y;  // which is x beyond there, in float32
  }
  return at.graph.node("Where", {at.of("Greater", scaled, act.threshold), at.x, y});
}
std::string form(At at, const math::Softsign&) { return at.op("Softsign"); }
std::string form(At at, const math::Tanhshrink&) { return at.of("Sub", at.x, at.op("Tanh")); }
std::string form(At at, const math::LeakyReLU& act) {
  return at.op("LeakyRelu", {{"alpha", act.negative_slope}});
}
std::string form(At at, const math::ELU& act) { return at.op("Elu", {{"alpha", act.alpha}}); }
std::string form(At at, const math::CELU& act) { return at.op("Celu", {{"alpha", act.alpha}}); }
std::string form(At at, const math::Hardshrink& act) {
  return at.op("Shrink", {{"lambd", act.lambd}, {"bias", 0.0}});
}
std::string form(At at, const math::Softshrink& act) {
  return at.op("Shrink", {{"lambd", act.lambd}, {"bias", act.lambd}});
}

template <class A>
std::string form(At at, const A&) {
  throw Error(text("export_onnx: ", at.graph.where(), " computes ", A::name,
                   ", which has no ONNX form yet (layers/onnx_activations.cpp)"));
}

}  // namespace

std::string OnnxGraph::activation(const math::AnyActivation& act, const std::string& x) {
  return std::visit([&](const auto& a) { return form(At{*this, x}, a); }, act);
}

}  // namespace sinter
