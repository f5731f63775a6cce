#include "cases.h"

#include <cctype>
#include <stdexcept>

#include "../autograd/activation_settings.h"
#include "../autograd/numbers.h"

namespace exchange {
namespace {

using namespace sinter;

Case of_text(const std::string& name, const std::string& text, const Shape& item,
             double spread = 3) {
  return {name, [text] { return std::make_unique<Sequential>(Sequential::parse(text)); }, item,
          DType::float32, spread};
}

// A module as a user writes it, with a parameter and a buffer of its own and a child used twice.
struct Gate : Module {
  Linear in{6, 6}, out{6, 4};
  Parameter scale{{6}, {0.5, 1.5}};
  Buffer shift{Tensor::full({6}, 0.25)};

  void members(Members& m) override {
    m.child("in", in);
    m.child("out", out);
    m.parameter("scale", scale);
    m.buffer("shift", shift);
  }
  Tensor forward(const Tensor& x) override {
    return out(relu(in(in(x))) * scale.value() + shift.value());
  }
  std::string onnx(OnnxGraph& graph, const std::string& x) override {
    const std::string y = graph.activation(math::ReLU{}, graph.run(in, graph.run(in, x)));
    const std::string scaled = graph.node("Mul", {y, graph.parameter(scale)});
    return graph.run(out, graph.node("Add", {scaled, graph.buffer(shift)}));
  }
};

struct Text {
  const char* text;
  Shape item;
  double spread = 3;
};

const Text layers[] = {
    {"linear(5, 7)", {5}},
    {"linear(5, 7, bias=false)", {5}},
    {"linear(5, 7)", {3, 5}},
    {"linear(5, 7, bias=false) -> relu", {2, 3, 5}},
    {"flatten", {2, 3, 4}},
    {"flatten(start_dim=2)", {2, 3, 4}},
    {"flatten(start_dim=-2)", {2, 3, 4}},
    {"flatten(start_dim=0)", {2, 3, 4}},
    {"dropout(p=0.5)", {4}},
    {"relu(drop_p=0.3) -> dropout", {4}},
    {"softmax", {9}},
    {"softmax", {3, 9}, 30},
    {"softmax(drop_p=0.3)", {9}},
    {"softmax -> dropout(p=0.3)", {9}},
    {"log_softmax", {9}, 30},
    {"softmin", {9}, 30},
    {"layer_norm(9)", {9}},
    {"layer_norm(9, eps=0.5, bias=false)", {2, 9}},
    {"layer_norm(3x4, elementwise_affine=false)", {2, 3, 4}},
    {"layer_norm(9, act=gelu, drop_p=0.2)", {2, 9}},
    {"rms_norm(9)", {9}},
    {"rms_norm(3x4, eps=0.25)", {2, 3, 4}},
    {"rms_norm(9, elementwise_affine=false)", {2, 9}},
    {"rms_norm(9, act=elu, alpha=0.4)", {9}},
    {"rms_norm(9) -> silu(drop_p=0.1)", {9}},
    {"batch_norm1d(6)", {6}},
    {"batch_norm1d(6, affine=false, eps=0.1)", {6, 5}},
    {"batch_norm1d(6, act=gelu, drop_p=0.2)", {6, 5}},
    {"batch_norm1d(6, act=elu, alpha=0.4)", {6}},
    {"batch_norm1d(6, track_running_stats=false)", {6, 5}},
    {"batch_norm1d(6, track_running_stats=false, affine=false)", {6}},
    {"batch_norm2d(3, momentum=none)", {3, 4, 5}},
    {"batch_norm2d(3) -> relu(drop_p=0.1)", {3, 4, 5}},
    {"batch_norm2d(3, track_running_stats=false)", {3, 4, 5}},
    {"glu", {10}},
    {"glu(act=leaky_relu, negative_slope=0.3)", {3, 10}},
    {"swiglu", {10}},
    {"geglu(drop_p=0.1)", {10}},
    {"reglu", {10}},
    {"residual(linear(6, 6) -> tanh -> linear(6, 6))", {6}},
    {"residual()", {6}},
    {"residual(residual(linear(6, 6)) -> gelu)", {6}},
    {"sequential(linear(6, 5) -> relu) -> sequential(sequential(linear(5, 3)) -> tanh)", {6}},
    {"multihead_attention(8, 2)", {5, 8}},
    {"multihead_attention(8, 4, bias=false)", {1, 8}},
    {"multihead_attention(12, 3, causal=true, drop_p=0.2)", {7, 12}},
    {"conv1d(3, 4, 5)", {3, 11}},
    {"conv1d(4, 6, 3, stride=2, padding=4, dilation=3, groups=2, bias=false)", {4, 16}},
    {"conv2d(2, 3, 3)", {2, 7, 8}},
    {"conv2d(4, 6, 3x2, stride=2x1, padding=1x2, dilation=2, groups=2)", {4, 9, 10}},
    {"conv2d(3, 6, 3, padding=1, groups=3, bias=false)", {3, 6, 6}},
    {"max_pool2d(2)", {2, 6, 7}},
    {"max_pool2d(3x2, stride=2x1, padding=1, dilation=2)", {2, 9, 9}},
    {"max_pool2d(2, padding=2, dilation=4)", {2, 9, 9}},
    {"max_pool2d(3, stride=2, ceil_mode=true)", {2, 8, 7}},
    {"max_pool2d(3, stride=2, padding=1, ceil_mode=true)", {2, 6, 8}},
    {"max_pool2d(2, stride=3, ceil_mode=true)", {2, 7, 8}},
    {"max_pool2d(3, stride=5, padding=1, dilation=2, ceil_mode=true)", {2, 8, 10}},
    {"avg_pool1d(3)", {2, 11}},
    {"avg_pool1d(3, stride=2, padding=1, ceil_mode=true)", {2, 8}},
    {"avg_pool1d(4, stride=3, padding=2, ceil_mode=true, count_include_pad=false)", {2, 9}},
    {"avg_pool2d(2x3)", {2, 6, 7}},
    {"avg_pool2d(3, stride=1, padding=1)", {2, 6, 7}},
    {"avg_pool2d(3, stride=1, padding=1, count_include_pad=false)", {2, 6, 7}},
    {"avg_pool2d(3, stride=2, padding=1, ceil_mode=true)", {2, 6, 8}},
    {"avg_pool2d(3, stride=2, padding=1, ceil_mode=true, count_include_pad=false)", {2, 6, 8}},
    {"avg_pool2d(2, stride=3, ceil_mode=true)", {2, 7, 8}},
    {"avg_pool2d(5, stride=4, padding=2, ceil_mode=true)", {2, 7, 10}},
    {"adaptive_avg_pool2d(1)", {2, 5, 7}},
    {"adaptive_avg_pool2d(2x3)", {2, 6, 9}},
    {"adaptive_avg_pool2d(3x4)", {2, 5, 7}},
    {"adaptive_avg_pool2d(7x2)", {2, 5, 4}},
    {"flatten -> linear(12, 7) -> relu(drop_p=0.2) -> linear(7, 3)", {3, 4}},
    {"conv2d(1, 4, 3, padding=1) -> batch_norm2d(4) -> relu -> max_pool2d(2) -> conv2d(4, 8, 3) -> "
     "gelu -> adaptive_avg_pool2d(1) -> flatten -> linear(8, 5) -> log_softmax",
     {1, 8, 8}},
    {"residual(layer_norm(8) -> multihead_attention(8, 2, causal=true)) -> residual(layer_norm(8) "
     "-> "
     "linear(8, 32) -> swiglu -> linear(16, 8)) -> rms_norm(8)",
     {6, 8}},
};

Case of_tokens(const std::string& name, const std::string& text, DType type) {
  Case out = of_text(name, text, {6}, 11);
  out.input_type = type;
  return out;
}

// Each word that the builder knows, which its own sentence lists.
void require_all_words(const std::string& texts) {
  const std::string known = testing::error_of([] { Sequential::parse("no_such_layer"); });
  std::string word;
  for (const char c :
       known.substr(known.find("known:") + 6, known.find(')') - known.find("known:") - 6)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
    } else if (!word.empty()) {
      if (texts.find(word) == std::string::npos) {
        throw std::runtime_error("no case has the layer " + word);
      }
      word.clear();
    }
  }
}

}  // namespace

std::vector<Case> onnx_cases() {
  std::vector<Case> out;
  std::string texts;
  for (const Text& layer : layers) {
    const std::string number = std::to_string(out.size());
    out.push_back(of_text("layer-" + number, layer.text, layer.item, layer.spread));
    texts += layer.text + std::string(" ");
  }
  math::for_each_activation([&]<class A>() {
    auto all = testing::settings<A>();
    if constexpr (std::same_as<A, math::Softplus>) {
      all.push_back({.beta = 2, .threshold = 1});
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Sequential model{ActivationLayer<A>{.act = all[i]}};
      out.push_back(of_text(std::string(A::name) + "-" + std::to_string(i), model.text(), {16}, 9));
      texts += model.text() + " ";
    }
  });
  const std::string tokens =
      "embedding(11, 4, padding_idx=2) -> multihead_attention(4, 2) -> flatten -> linear(24, 3)";
  texts += tokens;
  out.push_back(of_tokens("tokens-int64", tokens, DType::int64));
  out.push_back(of_tokens("tokens-int32", tokens, DType::int32));
  out.push_back(of_tokens("tokens-uint8", tokens, DType::uint8));
  out.push_back({"own-module", [] { return std::make_unique<Gate>(); }, {6}});
  for (const DType type : {DType::float64, DType::float16, DType::bfloat16}) {
    Case typed =
        of_text("type-" + std::string(name_of(type)),
                "linear(6, 9) -> batch_norm1d(9) -> silu -> rms_norm(9) -> linear(9, 4)", {6});
    typed.model_type = type;
    out.push_back(typed);
  }
  require_all_words(texts);
  return out;
}

std::vector<Case> torch_cases() {
  return {
      of_text(
          "mlp",
          "flatten -> linear(12, 7) -> relu(drop_p=0.25) -> linear(7, 5, bias=false) -> gelu -> "
          "linear(5, 3)",
          {3, 4}),
      of_text("norms",
              "linear(6, 8) -> layer_norm(8) -> silu -> batch_norm1d(8, act=tanh, drop_p=0.1) -> "
              "linear(8, 6) -> glu",
              {6}),
      of_text("images",
              "conv2d(2, 4, 3, padding=1) -> batch_norm2d(4) -> relu -> max_pool2d(2) -> "
              "conv2d(4, 6, 3, groups=2, bias=false) -> adaptive_avg_pool2d(1) -> flatten -> "
              "linear(6, 3)",
              {2, 8, 8}),
      of_text("sequence", "conv1d(4, 8, 3, padding=1) -> avg_pool1d(2) -> mish", {4, 10}),
      of_text("residual", "linear(6, 8) -> residual(layer_norm(8) -> linear(8, 8) -> elu)", {6}),
      of_text("attention",
              "multihead_attention(8, 2) -> sequential(linear(8, 4) -> tanh) -> softmax", {5, 8}),
      of_tokens("tokens", "embedding(11, 4, padding_idx=2) -> flatten -> linear(24, 3)",
                DType::int64),
  };
}

Tensor input_of(const Case& one, std::int64_t batch) {
  std::vector<std::int64_t> sizes{batch};
  sizes.insert(sizes.end(), one.item.sizes().begin(), one.item.sizes().end());
  const Shape shape{std::span<const std::int64_t>(sizes)};
  if (is_floating(one.input_type)) {
    return testing::tensor(shape, one.spread, 5, DType::float32);
  }
  const double half = one.spread / 2;  // (0, spread), truncated
  Tensor out = testing::tensor(shape, half, 5) + half;
  return out.to(one.input_type);
}

void disturb(Module& model) {
  std::uint32_t seed = 100;
  const auto disturbed = [&seed](Tensor value) {
    const std::vector<double> old = testing::doubles(value);
    if (value.numel() > 1 && std::ranges::count(old, old[0]) == value.numel()) {
      Tensor other = testing::tensor(value.shape(), 0.5, ++seed) + old[0];
      value.copy_from(other.to(value.dtype()).to(value.device()));
    }
  };
  for (const NamedParameter& parameter : model.parameters()) {
    disturbed(parameter.value().detach());
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    disturbed(buffer.value);
  }
}

}  // namespace exchange
