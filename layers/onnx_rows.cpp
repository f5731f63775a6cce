// What softmax, norms, gated units and attention are in ONNX.
#include <cmath>
#include <limits>

#include <sinter/layers/attention.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/glu.h>
#include <sinter/layers/norms.h>
#include <sinter/layers/onnx_parts.h>
#include <sinter/layers/softmax.h>

namespace sinter {

std::string Softmax::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Softmax>(*this);
  return graph.node("Softmax", {x}, {{"axis", -1}});
}

std::string LogSoftmax::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<LogSoftmax>(*this);
  return graph.node("LogSoftmax", {x}, {{"axis", -1}});
}

std::string Softmin::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Softmin>(*this);
  return graph.node("Softmax", {graph.node("Neg", {x})}, {{"axis", -1}});
}

std::string GLUModule::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<GLUModule>(*this);
  const auto halves = graph.node("Split", {x}, {{"axis", -1}}, 2);
  return graph.node("Mul", {halves[0], graph.activation(act, halves[1])});
}

std::string NormModule::onnx_tail(OnnxGraph& graph, const std::string& y) const {
  return act_ ? graph.activation(*act_, y) : y;
}

std::string LayerNorm::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<LayerNorm>(*this);
  const std::string weight = weight_.present() ? graph.parameter(weight_)
                                               : graph.constant(Tensor::full(normalized_shape_, 1));
  const std::string y =
      graph.node("LayerNormalization", {x, weight, graph.parameter(bias_)},
                 {{"axis", std::int64_t{-normalized_shape_.rank()}}, {"epsilon", options_.eps}});
  return onnx_tail(graph, y);
}

namespace {

// x / sqrt(mean of x^2 over those axes + eps)
std::string over_root_mean_square(OnnxGraph& graph, const std::string& x, const OnnxSizes& axes,
                                  double eps) {
  const std::string square = graph.node("Mul", {x, x});
  const std::string mean = graph.node("ReduceMean", {square}, {{"axes", axes}});
  const std::string root = graph.node("Sqrt", {graph.node("Add", {mean, graph.number(eps)})});
  return graph.node("Div", {x, root});
}

}  // namespace

std::string RMSNorm::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<RMSNorm>(*this);
  OnnxSizes axes;
  for (int d = normalized_shape_.rank(); d > 0; --d) {
    axes.push_back(-d);
  }
  const bool is_double = graph.input_of(*this).dtype == DType::float64;
  const double usual =
      is_double ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const std::string y = over_root_mean_square(graph, x, axes, options_.eps.value_or(usual));
  return onnx_tail(graph, weight_.present() ? graph.node("Mul", {y, graph.parameter(weight_)}) : y);
}

std::string BatchNorm::onnx(OnnxGraph& graph, const std::string& x) {
  if (least_rank_ == 4) {
    graph.require_exactly<BatchNorm2d>(*this);
  } else {
    graph.require_exactly<BatchNorm1d>(*this);
  }
  const Shape channels{num_features_};
  std::string y;
  if (options_.track_running_stats) {
    const auto or_all = [&](const Parameter& parameter, double value) {
      return parameter.present() ? graph.parameter(parameter)
                                 : graph.constant(Tensor::full(channels, value));
    };
    y = graph.node("BatchNormalization",
                   {x, or_all(weight_, 1), or_all(bias_, 0), graph.buffer(running_mean_),
                    graph.buffer(running_var_)},
                   {{"epsilon", options_.eps}});
  } else {
    OnnxSizes axes{0}, along{-1};  // all dimensions but the channels
    for (int d = 2; d < graph.input_of(*this).shape.rank(); ++d) {
      axes.push_back(d);
      along.push_back(1);
    }
    const std::string mean = graph.node("ReduceMean", {x}, {{"axes", axes}});
    y = over_root_mean_square(graph, graph.node("Sub", {x, mean}), axes, options_.eps);
    const auto with = [&](const char* op, const Parameter& parameter) {
      if (parameter.present()) {
        const std::string turned =
            graph.node("Reshape", {graph.parameter(parameter), graph.sizes(along)});
        y = graph.node(op, {y, turned});
      }
    };
    with("Mul", weight_);
    with("Add", bias_);
  }
  return onnx_tail(graph, y);
}

std::string MultiheadAttention::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<MultiheadAttention>(*this);
  const std::int64_t width = embed_dim_ / num_heads_;
  const std::int64_t length = graph.input_of(*this).shape[1];
  const std::string qkv = onnx_linear(graph, x, 3, in_weight_, in_bias_);
  // [batch, length, 3 embed_dim] to [3, batch, head, length, width]
  const std::string heads =
      graph.node("Transpose",
                 {graph.node("Reshape", {qkv, graph.sizes(OnnxSizes{0, 0, 3, num_heads_, width})})},
                 {{"perm", OnnxSizes{2, 0, 3, 1, 4}}});
  const auto part = [&](std::int64_t i) {
    return graph.node("Gather", {heads, graph.constant(Tensor::from({i}, {}))});
  };
  const std::string q = part(0), k = part(1), v = part(2);
  const std::string scaled =
      graph.node("Mul", {q, graph.number(1 / std::sqrt(static_cast<double>(width)))});
  std::string scores = graph.node(
      "MatMul", {scaled, graph.node("Transpose", {k}, {{"perm", OnnxSizes{0, 1, 3, 2}}})});
  if (options_.causal) {
    Tensor mask = Tensor::zeros({length, length});
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = i + 1; j < length; ++j) {
        mask.data<float>()[i * length + j] = -std::numeric_limits<float>::infinity();
      }
    }
    scores = graph.node("Add", {scores, graph.constant(mask)});
  }
  const std::string weights = graph.node("Softmax", {scores}, {{"axis", -1}});
  const std::string by_head = graph.node("Transpose", {graph.node("MatMul", {weights, v})},
                                         {{"perm", OnnxSizes{0, 2, 1, 3}}});
  const std::string y = graph.node("Reshape", {by_head, graph.sizes(OnnxSizes{0, 0, embed_dim_})});
  return onnx_linear(graph, y, 3, out_weight_, out_bias_);
}

}  // namespace sinter
