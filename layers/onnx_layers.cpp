// What the layers that a network is made of are in ONNX.
#include <sinter/layers/embedding.h>
#include <sinter/layers/onnx_graph.h>
#include <sinter/layers/onnx_parts.h>
#include <sinter/layers/residual.h>
#include <sinter/layers/sequential.h>

namespace sinter {

std::string onnx_linear(OnnxGraph& graph, const std::string& x, int rank, const Parameter& weight,
                        const Parameter& bias) {
  const std::string w = graph.parameter(weight), b = graph.parameter(bias);
  if (rank == 2) {
    return graph.node("Gemm", {x, w, b}, {{"transB", 1}});
  }
  const std::string turned = graph.node("Transpose", {w}, {{"perm", OnnxSizes{1, 0}}});
  const std::string y = graph.node("MatMul", {x, turned});
  return b.empty() ? y : graph.node("Add", {y, b});
}

std::string Sequential::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Sequential>(*this);
  std::string y = x;
  for (const Entry& entry : entries_) {
    y = graph.run(*entry.module, y);
  }
  return y;
}

std::string Residual::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Residual>(*this);
  return graph.node("Add", {x, graph.run(body_, x)});
}

std::string Linear::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Linear>(*this);
  return onnx_linear(graph, x, graph.input_of(*this).shape.rank(), weight_, bias_);
}

std::string ActivationModule::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<ActivationModule>(*this);
  return graph.activation(act, x);
}

std::string DropoutModule::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<DropoutModule>(*this);
  return x;
}

std::string Flatten::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Flatten>(*this);
  const int rank = graph.input_of(*this).shape.rank();
  const int start = start_dim_ < 0 ? start_dim_ + rank : start_dim_;
  if (start == 1) {
    return graph.node("Flatten", {x});
  }
  OnnxSizes sizes(static_cast<std::size_t>(start), 0);  // as they are
  sizes.push_back(-1);                                  // all the rest
  return graph.node("Reshape", {x, graph.sizes(sizes)});
}

std::string Embedding::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Embedding>(*this);
  constexpr std::int64_t int64_in_onnx = 7;
  const std::string indices = graph.input_of(*this).dtype == DType::uint8
                                  ? graph.node("Cast", {x}, {{"to", int64_in_onnx}})
                                  : x;
  return graph.node("Gather", {graph.parameter(weight_), indices});
}

}  // namespace sinter
