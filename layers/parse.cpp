// Reads the text form of a model.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <sinter/layers/norms.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/softmax.h>

namespace sinter {
namespace {

struct Argument {
  std::string name;  // empty: positional
  std::string value;
  std::size_t at;
};

/// One "name(arguments)" and where it stands, for messages.
struct Call {
  std::string_view text;
  std::string name;
  std::size_t at;
  std::vector<Argument> arguments;

  [[noreturn]] void fail(std::size_t position, const std::string& what) const {
    throw Error(sinter::text("Sequential::parse: ", what, " at character ", position + 1, " of \"",
                             text, "\""));
  }
  double number(const Argument& argument) const {
    double out = 0;
    const char* end = argument.value.data() + argument.value.size();
    const auto [last, failure] = std::from_chars(argument.value.data(), end, out);
    if (failure != std::errc{} || last != end) {
      fail(argument.at, "expected a number, found \"" + argument.value + "\"");
    }
    return out;
  }
  std::int64_t whole_number(const Argument& argument) const {
    std::int64_t out = 0;
    const char* end = argument.value.data() + argument.value.size();
    const auto [last, failure] = std::from_chars(argument.value.data(), end, out);
    if (failure != std::errc{} || last != end) {
      fail(argument.at, "expected a whole number, found \"" + argument.value + "\"");
    }
    return out;
  }
  bool truth(const Argument& argument) const {
    if (argument.value != "true" && argument.value != "false") {
      fail(argument.at, "expected true or false, found \"" + argument.value + "\"");
    }
    return argument.value == "true";
  }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<Call> read() {
    std::vector<Call> calls;
    do {
      calls.push_back(call());
    } while (take("->"));
    skip_space();
    if (at_ != text_.size()) {
      calls.back().fail(at_, "expected \"->\" or the end");
    }
    return calls;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }
  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) {
      return false;
    }
    at_ += token.size();
    return true;
  }
  std::string word(std::string_view extra) {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  extra.find(text_[at_]) != std::string_view::npos)) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }
  Call call() {
    skip_space();
    Call out{text_, {}, at_, {}};
    out.name = word("_");
    if (out.name.empty()) {
      out.fail(at_, "expected the name of a layer");
    }
    if (!take("(") || take(")")) {
      return out;
    }
    do {
      skip_space();
      const std::size_t begin = at_;
      Argument argument{{}, {}, at_};
      argument.value = word("_.+-");
      if (take("=")) {
        skip_space();
        argument = {argument.value, {}, at_};
        argument.value = word("_.+-");
      }
      if (argument.value.empty()) {
        out.fail(at_, "expected a value");
      }
      const bool again = !argument.name.empty() &&
                         std::ranges::any_of(out.arguments, [&](const Argument& earlier) {
                           return earlier.name == argument.name;
                         });
      if (again) {
        out.fail(begin, argument.name + " is given twice");
      }
      out.arguments.push_back(std::move(argument));
    } while (take(","));
    if (!take(")")) {
      out.fail(at_, "expected \",\" or \")\"");
    }
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

using Maker = std::function<void(const Call& call, Sequential& model)>;

// Takes the arguments of a call one by one, those without a name in the order of the questions.
class Taker {
 public:
  Taker(const Call& call, std::string usage) : call_(call), usage_(std::move(usage)) {}

  /// The argument of that name, or nullptr.
  const Argument* find(std::string_view name) {
    return take([&](const Argument& argument) { return argument.name == name; });
  }
  /// The same, or the next one without a name; a slot that is filled twice is an error.
  const Argument* find_in_order(std::string_view name) {
    const Argument* const named = find(name);
    const Argument* const next =
        take([](const Argument& argument) { return argument.name.empty(); });
    if (named != nullptr && next != nullptr) {
      call_.fail(next->at, usage_);
    }
    return named != nullptr ? named : next;
  }
  const Argument& need(std::string_view name) {
    const Argument* const argument = find_in_order(name);
    if (argument == nullptr) {
      call_.fail(call_.at, usage_);
    }
    return *argument;
  }
  double number(std::string_view name, double otherwise) { return number(find(name), otherwise); }
  double number_in_order(std::string_view name, double otherwise) {
    return number(find_in_order(name), otherwise);
  }
  bool truth(std::string_view name, bool otherwise) {
    const Argument* const argument = find(name);
    return argument == nullptr ? otherwise : call_.truth(*argument);
  }
  /// Fails for an argument that nobody asked for.
  void finish() const {
    for (std::size_t i = 0; i < call_.arguments.size(); ++i) {
      if (!taken_.contains(i)) {
        call_.fail(call_.arguments[i].at, usage_);
      }
    }
  }

 private:
  template <class Fits>
  const Argument* take(Fits fits) {
    for (std::size_t i = 0; i < call_.arguments.size(); ++i) {
      if (!taken_.contains(i) && fits(call_.arguments[i])) {
        taken_.insert(i);
        return &call_.arguments[i];
      }
    }
    return nullptr;
  }
  double number(const Argument* argument, double otherwise) const {
    return argument == nullptr ? otherwise : call_.number(*argument);
  }

  const Call& call_;
  std::string usage_;
  std::set<std::size_t> taken_;
};

void add_flatten(const Call& call, Sequential& model) {
  Taker taker(call, "flatten takes start_dim=N");
  int start_dim = 1;
  if (const Argument* const argument = taker.find("start_dim")) {
    const std::int64_t dim = call.whole_number(*argument);
    if (dim < -Shape::max_rank || dim >= Shape::max_rank) {
      call.fail(argument->at, "expected a dimension, found " + argument->value);
    }
    start_dim = static_cast<int>(dim);
  }
  taker.finish();
  model.add(Flatten{start_dim});
}

void add_linear(const Call& call, Sequential& model) {
  Taker taker(call, "linear takes (in_features, out_features, bias=true)");
  const std::int64_t in = call.whole_number(taker.need("in_features"));
  const std::int64_t out = call.whole_number(taker.need("out_features"));
  const LinearOptions options{.bias = taker.truth("bias", true)};
  taker.finish();
  model.add(Linear{in, out, options});
}

void add_dropout(const Call& call, Sequential& model) {
  Taker taker(call, "dropout takes p=X");
  const double p = taker.number_in_order("p", Dropout{}.p);
  taker.finish();
  model.add(Dropout{.p = p});
}

// "256", or "4x7" for more than one dimension.
Shape normalized_shape(const Call& call, const Argument& argument) {
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= argument.value.size();) {
    const std::size_t end = std::min(argument.value.find('x', begin), argument.value.size());
    sizes.push_back(
        call.whole_number({{}, argument.value.substr(begin, end - begin), argument.at + begin}));
    begin = end + 1;
  }
  if (sizes.size() > static_cast<std::size_t>(Shape::max_rank) ||
      std::ranges::any_of(sizes, [](std::int64_t size) { return size < 1; })) {
    call.fail(argument.at,
              "expected sizes of at least 1, as in 256 or 4x7, found " + argument.value);
  }
  return Shape(sizes);
}

void add_layer_norm(const Call& call, Sequential& model) {
  Taker taker(call,
              "layer_norm takes (normalized_shape, eps=X, elementwise_affine=true, bias=true)");
  const Shape shape = normalized_shape(call, taker.need("normalized_shape"));
  LayerNormOptions options;
  options.eps = taker.number("eps", options.eps);
  options.elementwise_affine = taker.truth("elementwise_affine", true);
  options.bias = taker.truth("bias", true);
  taker.finish();
  model.add(LayerNorm{shape, options});
}

void add_rms_norm(const Call& call, Sequential& model) {
  Taker taker(call, "rms_norm takes (normalized_shape, eps=X, elementwise_affine=true)");
  const Shape shape = normalized_shape(call, taker.need("normalized_shape"));
  RMSNormOptions options;
  if (const Argument* const eps = taker.find("eps")) {
    options.eps = call.number(*eps);
  }
  options.elementwise_affine = taker.truth("elementwise_affine", true);
  taker.finish();
  model.add(RMSNorm{shape, options});
}

template <class Layer>
void add_plain(const Call& call, Sequential& model) {
  Taker(call, call.name + " takes no arguments").finish();
  model.add(Layer{});
}

template <class A>
void take_parameters(const Call& call, Taker& taker, A& act) {
  std::apply(
      [&](const auto&... field) {
        [[maybe_unused]] const auto set = [&](const auto& f) {
          if (const Argument* const argument = taker.find(f.name)) {
            act.*f.member = call.number(*argument);
          }
        };
        (set(field), ...);
      },
      A::fields);
}

// "glu(act=leaky_relu, negative_slope=0.2, drop_p=0.1)"
void add_glu(const Call& call, Sequential& model) {
  Taker taker(call, "glu takes act=NAME, that activation's options by name, and drop_p=X");
  GLU layer;
  layer.drop_p = taker.number("drop_p", layer.drop_p);
  if (const Argument* const name = taker.find("act")) {
    bool is_known = false;
    std::string known;
    math::for_each_activation([&]<class A>() {
      known += (known.empty() ? "" : ", ") + std::string(A::name);
      if (name->value == A::name) {
        layer.act = A{};
        is_known = true;
      }
    });
    if (!is_known) {
      call.fail(name->at, "unknown activation \"" + name->value + "\" (known: " + known + ")");
    }
  }
  std::visit([&](auto& act) { take_parameters(call, taker, act); }, layer.act);
  taker.finish();
  model.add(layer);
}

template <class Layer>
void add_gated(const Call& call, Sequential& model) {
  Taker taker(call, call.name + " takes drop_p=X");
  Layer layer;
  layer.drop_p = taker.number("drop_p", layer.drop_p);
  taker.finish();
  model.add(layer);
}

template <class A>
void add_activation(const Call& call, Sequential& model) {
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
                                                   {"softmax", add_plain<Softmax>},
                                                   {"log_softmax", add_plain<LogSoftmax>},
                                                   {"softmin", add_plain<Softmin>},
                                                   {"glu", add_glu},
                                                   {"swiglu", add_gated<SwiGLU>},
                                                   {"geglu", add_gated<GEGLU>},
                                                   {"reglu", add_gated<ReGLU>}};
    math::for_each_activation(
        [&made]<class A>() { made.emplace(std::string(A::name), add_activation<A>); });
    return made;
  }();
  return table;
}

}  // namespace

Sequential Sequential::parse(std::string_view text) {
  Sequential model;
  for (const Call& call : Reader(text).read()) {
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

}  // namespace sinter
