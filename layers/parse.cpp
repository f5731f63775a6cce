// Reads the text form of a model.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include <sinter/layers/sequential.h>

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

void add_flatten(const Call& call, Sequential& model) {
  int start_dim = 1;
  for (const Argument& argument : call.arguments) {
    if (argument.name != "start_dim") {
      call.fail(argument.at, "flatten takes start_dim=N");
    }
    const std::int64_t dim = call.whole_number(argument);
    if (dim < -Shape::max_rank || dim >= Shape::max_rank) {
      call.fail(argument.at, "expected a dimension, found " + argument.value);
    }
    start_dim = static_cast<int>(dim);
  }
  model.add(Flatten{start_dim});
}

void add_linear(const Call& call, Sequential& model) {
  std::optional<std::int64_t> in;
  std::optional<std::int64_t> out;
  LinearOptions options;
  for (const Argument& argument : call.arguments) {
    if (argument.name == "bias") {
      options.bias = call.truth(argument);
    } else if ((argument.name == "in_features" || argument.name.empty()) && !in) {
      in = call.whole_number(argument);
    } else if ((argument.name == "out_features" || argument.name.empty()) && !out) {
      out = call.whole_number(argument);
    } else {
      call.fail(argument.at, "linear takes (in_features, out_features, bias=true)");
    }
  }
  if (!in || !out) {
    call.fail(call.at, "linear takes (in_features, out_features, bias=true)");
  }
  model.add(Linear{*in, *out, options});
}

void add_dropout(const Call& call, Sequential& model) {
  double p = Dropout{}.p;
  for (const Argument& argument : call.arguments) {
    if ((!argument.name.empty() && argument.name != "p") || call.arguments.size() > 1) {
      call.fail(argument.at, "dropout takes p=X");
    }
    p = call.number(argument);
  }
  model.add(Dropout{.p = p});
}

template <class A>
void add_activation(const Call& call, Sequential& model) {
  ActivationLayer<A> layer;
  for (const Argument& argument : call.arguments) {
    bool known = argument.name == "drop_p";
    if (known) {
      layer.drop_p = call.number(argument);
    }
    std::string takes = "drop_p";
    std::apply(
        [&](const auto&... field) {
          [[maybe_unused]] const auto set = [&](const auto& f) {
            takes += ", " + std::string(f.name);
            if (argument.name == f.name) {
              layer.act.*f.member = call.number(argument);
              known = true;
            }
          };
          (set(field), ...);
        },
        A::fields);
    if (!known) {
      call.fail(argument.at, call.name + " takes its options by name (" + takes + ")");
    }
  }
  model.add(layer);
}

const std::map<std::string, Maker, std::less<>>& makers() {
  static const auto table = [] {
    std::map<std::string, Maker, std::less<>> made{
        {"flatten", add_flatten}, {"linear", add_linear}, {"dropout", add_dropout}};
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
