// Reads the text form of a model.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include <sinter/layers/attention.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/embedding.h>
#include <sinter/layers/model_text.h>
#include <sinter/layers/norms.h>
#include <sinter/layers/parse_images.h>
#include <sinter/layers/residual.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/softmax.h>
#include <sinter/layers/taker.h>

namespace sinter {
namespace {

using Maker = std::function<void(const LayerCall& call, Sequential& model)>;

void add_flatten(const LayerCall& call, Sequential& model) {
  Taker taker(call, "flatten takes start_dim=N");
  int start_dim = 1;
  if (const LayerArgument* const argument = taker.find("start_dim")) {
    const std::int64_t dim = call.whole_number(*argument);
    if (dim < -Shape::max_rank || dim >= Shape::max_rank) {
      call.fail(argument->at, "expected a dimension, found " + argument->value);
    }
    start_dim = static_cast<int>(dim);
  }
  taker.finish();
  model.add(Flatten{start_dim});
}

void add_linear(const LayerCall& call, Sequential& model) {
  Taker taker(call, "linear takes (in_features, out_features, bias=true)");
  const std::int64_t in = call.whole_number(taker.need("in_features"));
  const std::int64_t out = call.whole_number(taker.need("out_features"));
  const LinearOptions options{.bias = taker.truth("bias", true)};
  taker.finish();
  model.add(Linear{in, out, options});
}

void add_dropout(const LayerCall& call, Sequential& model) {
  Taker taker(call, "dropout takes p=X");
  const double p = taker.number_in_order("p", Dropout{}.p);
  taker.finish();
  model.add(Dropout{.p = p});
}

template <class A>
void take_parameters(const LayerCall& call, Taker& taker, A& act) {
  std::apply(
      [&](const auto&... field) {
        [[maybe_unused]] const auto set = [&](const auto& f) {
          if (const LayerArgument* const argument = taker.find(f.name)) {
            act.*f.member = call.number(*argument);
          }
        };
        (set(field), ...);
      },
      A::fields);
}

// "act=leaky_relu, negative_slope=0.2", or nothing and `otherwise`.
std::optional<math::AnyActivation> take_activation(const LayerCall& call, Taker& taker,
                                                   std::optional<math::AnyActivation> otherwise) {
  std::optional<math::AnyActivation> act = otherwise;
  if (const LayerArgument* const name = taker.find("act")) {
    bool is_known = false;
    std::string known;
    math::for_each_activation([&]<class A>() {
      known += (known.empty() ? "" : ", ") + std::string(A::name);
      if (name->value == A::name) {
        act = A{};
        is_known = true;
      }
    });
    if (!is_known) {
      call.fail(name->at, "unknown activation \"" + name->value + "\" (known: " + known + ")");
    }
  }
  if (act) {
    std::visit([&](auto& a) { take_parameters(call, taker, a); }, *act);
  }
  return act;
}

// What stands behind a norm.
template <class Options>
void take_tail(const LayerCall& call, Taker& taker, Options& options) {
  options.act = take_activation(call, taker, std::nullopt);
  options.drop_p = taker.number("drop_p", options.drop_p);
}

void add_layer_norm(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "layer_norm takes (normalized_shape, eps=X, elementwise_affine=true, bias=true, "
              "act=NAME, that activation's options, drop_p=X)");
  const Shape shape = Shape(call.sizes(taker.need("normalized_shape"), Shape::max_rank, 1));
  LayerNormOptions options;
  options.eps = taker.number("eps", options.eps);
  options.elementwise_affine = taker.truth("elementwise_affine", true);
  options.bias = taker.truth("bias", true);
  take_tail(call, taker, options);
  taker.finish();
  model.add(LayerNorm{shape, options});
}

void add_rms_norm(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "rms_norm takes (normalized_shape, eps=X, elementwise_affine=true, act=NAME, that "
              "activation's options, drop_p=X)");
  const Shape shape = Shape(call.sizes(taker.need("normalized_shape"), Shape::max_rank, 1));
  RMSNormOptions options;
  if (const LayerArgument* const eps = taker.find("eps")) {
    options.eps = call.number(*eps);
  }
  options.elementwise_affine = taker.truth("elementwise_affine", true);
  take_tail(call, taker, options);
  taker.finish();
  model.add(RMSNorm{shape, options});
}

void add_embedding(const LayerCall& call, Sequential& model) {
  Taker taker(call, "embedding takes (num_embeddings, embedding_dim, padding_idx=N)");
  const std::int64_t count = call.whole_number(taker.need("num_embeddings"));
  const std::int64_t width = call.whole_number(taker.need("embedding_dim"));
  EmbeddingOptions options;
  if (const LayerArgument* const row = taker.find("padding_idx")) {
    options.padding_idx = call.whole_number(*row);
  }
  taker.finish();
  model.add(Embedding{count, width, options});
}

void add_attention(const LayerCall& call, Sequential& model) {
  Taker taker(call,
              "multihead_attention takes (embed_dim, num_heads, drop_p=X, bias=true, "
              "causal=false)");
  const std::int64_t width = call.whole_number(taker.need("embed_dim"));
  const std::int64_t heads = call.whole_number(taker.need("num_heads"));
  MultiheadAttentionOptions options;
  options.drop_p = taker.number("drop_p", options.drop_p);
  options.bias = taker.truth("bias", options.bias);
  options.causal = taker.truth("causal", options.causal);
  taker.finish();
  model.add(MultiheadAttention{width, heads, options});
}

Sequential made_of(const std::vector<LayerCall>& calls);

void add_residual(const LayerCall& call, Sequential& model) {
  Residual block;
  block.body() = made_of(call.inner);
  model.add(std::move(block));
}

void add_sequential(const LayerCall& call, Sequential& model) { model.add(made_of(call.inner)); }

template <class Layer>
void add_plain(const LayerCall& call, Sequential& model) {
  Taker(call, call.name + " takes no arguments").finish();
  model.add(Layer{});
}

void add_softmax(const LayerCall& call, Sequential& model) {
  Taker taker(call, "softmax takes drop_p=X");
  SoftmaxOptions options;
  options.drop_p = taker.number("drop_p", options.drop_p);
  taker.finish();
  model.add(Softmax{options});
}

// "glu(act=leaky_relu, negative_slope=0.2, drop_p=0.1)"
void add_glu(const LayerCall& call, Sequential& model) {
  Taker taker(call, "glu takes act=NAME, that activation's options by name, and drop_p=X");
  GLU layer;
  layer.drop_p = taker.number("drop_p", layer.drop_p);
  layer.act = *take_activation(call, taker, layer.act);
  taker.finish();
  model.add(layer);
}

template <class Layer>
void add_batch_norm(const LayerCall& call, Sequential& model) {
  Taker taker(call, call.name +
                        " takes (num_features, eps=X, momentum=X or none, affine=true, "
                        "track_running_stats=true, act=NAME, that activation's options, drop_p=X)");
  const std::int64_t features = call.whole_number(taker.need("num_features"));
  BatchNormOptions options;
  options.eps = taker.number("eps", options.eps);
  if (const LayerArgument* const momentum = taker.find("momentum")) {
    options.momentum = momentum->value == "none"
                           ? std::nullopt
                           : std::optional(call.number(*momentum, "a number or none"));
  }
  options.affine = taker.truth("affine", true);
  options.track_running_stats = taker.truth("track_running_stats", true);
  take_tail(call, taker, options);
  taker.finish();
  model.add(Layer{features, options});
}

template <class Layer>
void add_gated(const LayerCall& call, Sequential& model) {
  Taker taker(call, call.name + " takes drop_p=X");
  Layer layer;
  layer.drop_p = taker.number("drop_p", layer.drop_p);
  taker.finish();
  model.add(layer);
}

template <class A>
void add_activation(const LayerCall& call, Sequential& model) {
  std::string names = "drop_p";
  std::apply([&](const auto&... field) { ((names += ", " + std::string(field.name)), ...); },
             A::fields);
  Taker taker(call, call.name + " takes its options by name (" + names + ")");
  ActivationLayer<A> layer;
  layer.drop_p = taker.number("drop_p", layer.drop_p);
  take_parameters(call, taker, layer.act);
  taker.finish();
  model.add(layer);
}

const std::map<std::string, Maker, std::less<>>& makers() {
  static const auto table = [] {
    std::map<std::string, Maker, std::less<>> made{{"flatten", add_flatten},
                                                   {"linear", add_linear},
                                                   {"dropout", add_dropout},
                                                   {"layer_norm", add_layer_norm},
                                                   {"rms_norm", add_rms_norm},
                                                   {"embedding", add_embedding},
                                                   {"multihead_attention", add_attention},
                                                   {"batch_norm1d", add_batch_norm<BatchNorm1d>},
                                                   {"batch_norm2d", add_batch_norm<BatchNorm2d>},
                                                   {"softmax", add_softmax},
                                                   {"log_softmax", add_plain<LogSoftmax>},
                                                   {"softmin", add_plain<Softmin>},
                                                   {"glu", add_glu},
                                                   {"conv1d", add_conv1d},
                                                   {"conv2d", add_conv2d},
                                                   {"max_pool2d", add_max_pool2d},
                                                   {"avg_pool1d", add_avg_pool1d},
                                                   {"avg_pool2d", add_avg_pool2d},
                                                   {"adaptive_avg_pool2d", add_adaptive_avg_pool2d},
                                                   {"residual", add_residual},
                                                   {"sequential", add_sequential},
                                                   {"swiglu", add_gated<SwiGLU>},
                                                   {"geglu", add_gated<GEGLU>},
                                                   {"reglu", add_gated<ReGLU>}};
    math::for_each_activation(
        [&made]<class A>() { made.emplace(std::string(A::name), add_activation<A>); });
    return made;
  }();
  return table;
}

Sequential made_of(const std::vector<LayerCall>& calls) {
  Sequential model;
  for (const LayerCall& call : calls) {
    const auto maker = makers().find(call.name);
    if (maker == makers().end()) {
      std::string known;
      for (const auto& [name, unused] : makers()) {
        known += (known.empty() ? "" : ", ") + name;
      }
      call.fail(call.at, "unknown layer \"" + call.name + "\" (known: " + known + ")");
    }
    maker->second(call, model);
  }
  return model;
}

}  // namespace

Sequential Sequential::parse(std::string_view text) { return made_of(read_model_text(text)); }

}  // namespace sinter
