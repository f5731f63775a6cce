#include <algorithm>
#include <cctype>
#include <charconv>

#include <sinter/layers/model_text.h>
#include <sinter/runtime/error.h>

namespace sinter {

void LayerCall::fail(std::size_t position, const std::string& what) const {
  throw Error(sinter::text("Sequential::parse: ", what, " at character ", position + 1, " of \"",
                           text, "\""));
}

double LayerCall::number(const LayerArgument& argument, const char* expected) const {
  double out = 0;
  const char* end = argument.value.data() + argument.value.size();
  const auto [last, failure] = std::from_chars(argument.value.data(), end, out);
  if (failure != std::errc{} || last != end) {
    fail(argument.at, sinter::text("expected ", expected, ", found \"", argument.value, "\""));
  }
  return out;
}

std::int64_t LayerCall::whole_number(const LayerArgument& argument) const {
  std::int64_t out = 0;
  const char* end = argument.value.data() + argument.value.size();
  const auto [last, failure] = std::from_chars(argument.value.data(), end, out);
  if (failure != std::errc{} || last != end) {
    fail(argument.at, "expected a whole number, found \"" + argument.value + "\"");
  }
  return out;
}

bool LayerCall::truth(const LayerArgument& argument) const {
  if (argument.value != "true" && argument.value != "false") {
    fail(argument.at, "expected true or false, found \"" + argument.value + "\"");
  }
  return argument.value == "true";
}

std::vector<std::int64_t> LayerCall::sizes(const LayerArgument& argument, int most,
                                           std::int64_t least) const {
  std::vector<std::int64_t> out;
  for (std::size_t begin = 0; begin <= argument.value.size();) {
    const std::size_t end = std::min(argument.value.find('x', begin), argument.value.size());
    out.push_back(
        whole_number({{}, argument.value.substr(begin, end - begin), argument.at + begin}));
    begin = end + 1;
  }
  if (out.size() > static_cast<std::size_t>(most) || std::ranges::min(out) < least) {
    fail(argument.at, sinter::text("expected sizes of at least ", least, ", at most ", most,
                                   " of them, as in 256 or 4x7, found ", argument.value));
  }
  return out;
}

namespace {

bool is_made_of_layers(std::string_view name) { return name == "residual" || name == "sequential"; }
// Enough for anybody, and no text runs out of the stack.
constexpr int most_depth = 32;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<LayerCall> read() {
    std::vector<LayerCall> calls = chain();
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
  std::vector<LayerCall> chain() {
    std::vector<LayerCall> calls;
    do {
      calls.push_back(call());
    } while (take("->"));
    return calls;
  }
  LayerCall call() {
    skip_space();
    LayerCall out{text_, {}, at_, {}};
    out.name = word("_");
    if (out.name.empty()) {
      out.fail(at_, "expected the name of a layer");
    }
    if (is_made_of_layers(out.name)) {
      read_inner(out);
      return out;
    }
    if (!take("(") || take(")")) {
      return out;
    }
    do {
      skip_space();
      const std::size_t begin = at_;
      LayerArgument argument{{}, {}, at_};
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
                         std::ranges::any_of(out.arguments, [&](const LayerArgument& earlier) {
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

  void read_inner(LayerCall& out) {
    if (depth_ == most_depth) {
      out.fail(out.at, "layers are nested more than " + std::to_string(most_depth) + " deep");
    }
    ++depth_;
    if (!take("(")) {
      out.fail(at_, "expected \"(\" and the layers of " + out.name);
    }
    if (!take(")")) {
      out.inner = chain();
      if (!take(")")) {
        out.fail(at_, "expected \"->\" or \")\"");
      }
    }
    --depth_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<LayerCall> read_model_text(std::string_view text) { return Reader(text).read(); }

}  // namespace sinter
