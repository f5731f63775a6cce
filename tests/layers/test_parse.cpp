// The text form of a model: what is read, that it reads back, and where errors point.
#include <cmath>

#include <doctest/doctest.h>

#include "../autograd/activation_settings.h"
#include "../autograd/values.h"
#include <sinter/layers/sequential.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

using namespace testing;

TEST_CASE("a line of text is the model that it describes") {
  manual_seed(7);
  Sequential parsed = Sequential::parse(
      "flatten -> linear(12,6) -> relu(drop_p=0.25) -> linear(6,4,bias=false) -> "
      "leaky_relu(negative_slope=0.1, drop_p=0.5) -> dropout(p=0.1) -> linear(4, 3)");
  const Tensor x = tensor({5, 3, 4}, 1.0, 1, DType::float32);
  const Tensor y = parsed(x);
  manual_seed(7);
  Sequential built{Flatten{},
                   Linear{12, 6},
                   ReLU{.drop_p = 0.25},
                   Linear{6, 4, {.bias = false}},
                   LeakyReLU{.act = {.negative_slope = 0.1}, .drop_p = 0.5},
                   Dropout{.p = 0.1},
                   Linear{4, 3}};
  CHECK(parsed.size() == 7);
  CHECK(parsed.text() == built.text());
  CHECK(same(built(x), y));
}

void check_round_trip(const std::string& text) {
  CAPTURE(text);
  Sequential model = Sequential::parse(text);
  CHECK(model.text() == text);
  CHECK(Sequential::parse(model.text()).text() == text);
}

TEST_CASE("every layer and every option reads back") {
  for (const char* text : {"flatten",
                           "flatten(start_dim=0)",
                           "flatten(start_dim=-2)",
                           "linear(1, 1)",
                           "linear(784, 256)",
                           "linear(784, 256, bias=false)",
                           "dropout(p=0.5)",
                           "dropout(p=0)",
                           "dropout(p=1)",
                           "dropout(p=0.30000000000000004)",
                           "relu(drop_p=1e-05)",
                           "hardtanh(min_val=-2, max_val=0.5)",
                           "softplus(beta=3, threshold=7, drop_p=0.1)",
                           "layer_norm(256)",
                           "layer_norm(4x7, eps=0.001)",
                           "layer_norm(3, elementwise_affine=false)",
                           "layer_norm(3, bias=false)",
                           "rms_norm(256)",
                           "rms_norm(2x3x4, eps=1e-06)",
                           "rms_norm(3, elementwise_affine=false)",
                           "embedding(10, 3)",
                           "embedding(10, 3, padding_idx=0)",
                           "multihead_attention(8, 2)",
                           "multihead_attention(8, 2, drop_p=0.1, bias=false, causal=true)",
                           "softmax",
                           "softmax(drop_p=0.1)",
                           "log_softmax",
                           "softmin",
                           "glu",
                           "glu(drop_p=0.1)",
                           "glu(act=silu)",
                           "glu(act=leaky_relu, negative_slope=0.2, drop_p=0.5)",
                           "conv1d(3, 4, 5)",
                           "conv1d(4, 6, 3, stride=2, padding=1, dilation=3, groups=2, bias=false)",
                           "conv2d(1, 6, 5)",
                           "conv2d(4, 6, 3x2, stride=1x2, padding=1x0, dilation=2, groups=2)",
                           "conv2d(1, 6, 5, padding=2, bias=false)",
                           "max_pool2d(2)",
                           "max_pool2d(3x2, stride=2x1, padding=1, dilation=2, ceil_mode=true)",
                           "avg_pool1d(3)",
                           "avg_pool1d(3, stride=2, padding=1, ceil_mode=true)",
                           "avg_pool2d(2x3)",
                           "avg_pool2d(3, stride=1, padding=1, count_include_pad=false)",
                           "adaptive_avg_pool2d(1)",
                           "adaptive_avg_pool2d(7x5)",
                           "residual(linear(4, 4) -> relu(drop_p=0.1))",
                           "residual(residual(tanh) -> gelu) -> relu",
                           "residual()",
                           "conv1d(3, 4, 5, stride=100000)",
                           "conv2d(6, 100000, 3, stride=100000x2, groups=2)",
                           "embedding(200000, 8, padding_idx=100000)",
                           "flatten -> linear(4, 3) -> tanh -> dropout(p=0.125) -> linear(3, 2)"}) {
    check_round_trip(text);
  }
  math::for_each_activation([]<class A>() {
    check_round_trip(std::string(A::name));
    for (const A& act : settings<A>()) {
      Sequential model{ActivationLayer<A>{.act = act, .drop_p = 0.1}};
      check_round_trip(model.text());
      Sequential read = Sequential::parse(model.text());
      const auto& module = dynamic_cast<ActivationModule&>(read[0]);
      CHECK(module.drop_p == 0.1);
      const bool equal = std::apply(
          [&](const auto&... field) {
            [[maybe_unused]] const A& got = std::get<A>(module.act);
            return ((got.*field.member == act.*field.member) && ... && true);
          },
          A::fields);
      CHECK(equal);
    }
  });
}

TEST_CASE("spaces, names for positions, and defaults") {
  const auto text_of = [](std::string_view text) { return Sequential::parse(text).text(); };
  CHECK(text_of(" \t\nlinear ( 3 ,4 )->relu( )  ->\n  dropout  ") ==
        "linear(3, 4) -> relu -> dropout(p=0.5)");
  CHECK(text_of("linear(in_features=3, out_features=4, bias=true)") == "linear(3, 4)");
  CHECK(text_of("linear(out_features=4, in_features=3)") == "linear(3, 4)");
  CHECK(text_of("dropout(0.25)") == "dropout(p=0.25)");
  CHECK(text_of("relu(drop_p=1e-1)") == "relu(drop_p=0.1)");
  CHECK(text_of("relu(drop_p=.5)") == "relu(drop_p=0.5)");
  CHECK(text_of("layer_norm(eps=1e-5, normalized_shape=4)") == "layer_norm(4)");
  CHECK(text_of("swiglu(drop_p=0.1) -> geglu -> reglu") ==
        "glu(act=silu, drop_p=0.1) -> glu(act=gelu) -> glu(act=relu)");
  CHECK(text_of("leaky_relu(negative_slope=0.01)") == "leaky_relu");
}

// Text, the character (counted from 1) that the message points at, and what it says there.
TEST_CASE("errors point at the first thing that cannot be read") {
  struct Malformed {
    const char* text;
    int at;
    const char* says;
  };
  const Malformed all[] = {
      {"", 1, "expected the name of a layer"},
      {"   ", 4, "expected the name of a layer"},
      {"relu ->", 8, "expected the name of a layer"},
      {"-> relu", 1, "expected the name of a layer"},
      {"relu -> -> relu", 9, "expected the name of a layer"},
      {"linear(2,3) -> conv(3)", 16, "unknown layer \"conv\" (known: "},
      {"ReLU", 1, "unknown layer \"ReLU\""},
      {"relu tanh", 6, "expected \"->\" or the end"},
      {"relu) -> tanh", 5, "expected \"->\" or the end"},
      {"relu - > tanh", 6, "expected \"->\" or the end"},
      {"linear", 1, "linear takes (in_features, out_features"},
      {"relu -> linear(3)", 9, "linear takes (in_features, out_features"},
      {"linear(3, 4, 5)", 14, "linear takes (in_features, out_features"},
      {"linear(3, 4, units=5)", 20, "linear takes (in_features, out_features"},
      {"linear(3, four)", 11, "expected a whole number, found \"four\""},
      {"linear(3, 4.5)", 11, "expected a whole number, found \"4.5\""},
      {"linear(3, 99999999999999999999)", 11, "expected a whole number"},
      {"linear(3, 4, bias=maybe)", 19, "expected true or false, found \"maybe\""},
      {"linear(3, )", 11, "expected a value"},
      {"linear(3 4)", 10, "expected \",\" or \")\""},
      {"linear(3, 4", 12, "expected \",\" or \")\""},
      {"linear(", 8, "expected a value"},
      {"relu(drop_p=)", 13, "expected a value"},
      {"relu(drop_p=lots)", 13, "expected a number, found \"lots\""},
      {"relu(drop_p=0.1.2)", 13, "expected a number, found \"0.1.2\""},
      {"relu(drop_p=+0.1)", 13, "expected a number, found \"+0.1\""},
      {"relu(0.1)", 6, "relu takes its options by name (drop_p)"},
      {"leaky_relu(slope=0.1)", 18,
       "leaky_relu takes its options by name (drop_p, negative_slope)"},
      {"dropout(q=0.1)", 11, "dropout takes p=X"},
      {"flatten(1)", 9, "flatten takes start_dim=N"},
      {"flatten(start_dim=4294967297)", 19, "expected a dimension, found 4294967297"},
      {"relu(drop_p=0.1, drop_p=0.2)", 18, "drop_p is given twice"},
      {"linear(3, 4, bias=true, bias=false)", 25, "bias is given twice"},
      {"linear(784, in_features=10)", 8, "linear takes (in_features, out_features"},
      {"linear(3, 4, out_features=5)", 11, "linear takes (in_features, out_features"},
      {"residual", 9, "expected \"(\" and the layers of residual"},
      {"residual(relu", 14, "expected \"->\" or \")\""},
      {"residual(relu tanh)", 15, "expected \"->\" or \")\""},
      {"residual(relu -> what)", 18, "unknown layer \"what\""},
      {"residual(relu))", 15, "expected \"->\" or the end"},
      {"layer_norm", 1, "layer_norm takes (normalized_shape"},
      {"layer_norm(4x)", 14, "expected a whole number, found \"\""},
      {"layer_norm(0)", 12, "expected sizes of at least 1"},
      {"layer_norm(4x7xq)", 16, "expected a whole number, found \"q\""},
      {"conv2d(1, 2)", 1, "conv2d takes (in_channels, out_channels, kernel_size, stride"},
      {"conv2d(1, 2, 3x3x3)", 14, "expected sizes of at least 0, at most 2 of them"},
      {"conv2d(1, 2, 3, padding=-1)", 25, "expected sizes of at least 0"},
      {"conv1d(1, 2, 3x3)", 14, "expected a whole number, found \"3x3\""},
      {"conv1d(1, 2, 3, 4)", 17, "conv1d takes (in_channels"},
      {"max_pool2d", 1, "max_pool2d takes (kernel_size"},
      {"avg_pool2d(2, stride=a)", 22, "expected a whole number, found \"a\""},
      {"avg_pool1d(2, dilation=2)", 24, "avg_pool1d takes (kernel_size"},
      {"adaptive_avg_pool2d(7x)", 23, "expected a whole number, found \"\""},
      {"rms_norm(1x1x1x1x1x1x1)", 10, "expected sizes of at least 1"},
      {"rms_norm(4, bias=true)", 18, "rms_norm takes (normalized_shape"},
      {"softmax(1)", 9, "softmax takes drop_p=X"},
      {"log_softmax(1)", 13, "log_softmax takes no arguments"},
      {"glu(act=gru)", 9, "unknown activation \"gru\" (known: sigmoid, "},
      {"glu(act=relu, alpha=1)", 21, "glu takes act=NAME"},
      {"swiglu(0.1)", 8, "swiglu takes drop_p=X"},
      {"relu(drop_p=0.1)x", 17, "expected \"->\" or the end"}};
  for (const Malformed& one : all) {
    CAPTURE(one.text);
    check_error([&] { Sequential::parse(one.text); },
                {"Sequential::parse", one.says,
                 " at character " + std::to_string(one.at) + " of \"", one.text});
  }
}

TEST_CASE("layers may be nested, but not without end") {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) {
      text += "residual(";
    }
    return text + "relu" + std::string(static_cast<std::size_t>(depth), ')');
  };
  Sequential deepest = Sequential::parse(nested(32));
  CHECK(deepest.text() == nested(32));
  CHECK(deepest(Tensor::full({1, 2}, 1)).shape() == Shape{1, 2});
  check_error([&] { Sequential::parse(nested(33)); }, {"nested more than 32 deep"});
  check_error([&] { Sequential::parse(nested(100000)); }, {"nested more than 32 deep"});
}

TEST_CASE("a model that is only described takes no memory, whatever its size") {
  reset_peak(Device::cpu());
  const std::size_t before = pool_stats(Device::cpu()).peak_in_use;
  check_round_trip("batch_norm1d(1000000000000) -> batch_norm2d(1000000000000, affine=false)");
  check_round_trip(
      "linear(1000000, 1000000) -> embedding(1000000000, 1000) -> layer_norm(1000000000)");
  check_round_trip("conv2d(1000000, 1000000, 5) -> multihead_attention(1000000, 1000)");
  CHECK(pool_stats(Device::cpu()).peak_in_use == before);
}

TEST_CASE("values out of range are errors of the layer") {
  check_error([] { Sequential::parse("relu(drop_p=1.5)"); }, {"relu", "drop_p", "[0, 1]"});
  check_error([] { Sequential::parse("relu(drop_p=nan)"); }, {"relu", "drop_p", "[0, 1]"});
  check_error([] { Sequential::parse("dropout(p=-0.1)"); }, {"dropout", "[0, 1]"});
  check_error([] { Sequential::parse("elu(alpha=-1)"); }, {"elu", "alpha >= 0"});
  check_error([] { Sequential::parse("elu(alpha=inf)"); }, {"elu"});
  check_error([] { Sequential::parse("layer_norm(3, eps=-1)"); }, {"layer_norm", "eps"});
  check_error([] { Sequential::parse("glu(drop_p=2)"); }, {"glu", "drop_p", "[0, 1]"});
  check_error([] { Sequential::parse("linear(0, 3)"); }, {"linear(0, 3)", "at least 1"});
  check_error([] { Sequential::parse("linear(-3, 3)"); }, {"linear(-3, 3)", "at least 1"});
  check_error([] { Sequential::parse("linear(4000000000, 4000000000)"); }, {"64-bit"});
}

TEST_CASE("an unknown layer is answered with the list of known ones") {
  const std::string message = error_of([] { Sequential::parse("gru(1)"); });
  math::for_each_activation([&]<class A>() { CHECK(contains(message, A::name)); });
  for (const char* name : {"dropout", "flatten", "linear"}) {
    CHECK(contains(message, name));
  }
}

// Whatever comes in, a model or an Error comes out, and a model reads back as itself.
void read_anything(const std::string& text, int& models) {
  try {
    Sequential model = Sequential::parse(text);
    ++models;
    if (Sequential::parse(model.text()).text() != model.text()) {
      FAIL_CHECK("does not read back: ", text);
    }
  } catch (const Error& error) {
    if (std::string_view(error.what()).empty()) {
      FAIL_CHECK("an error without a text for: ", text);
    }
  }
}

TEST_CASE("random and damaged text never crashes") {
  std::uint32_t state = 12345;
  const auto next = [&state](std::uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  const std::vector<std::string> pieces{
      "linear", "(", ")",       ",",   "->",    " ",    "relu",    "drop_p", "=",   "0.1", "3",
      "-",      ">", "flatten", "elu", "alpha", "bias", "dropout", "true",   "1e9", "p"};
  int models = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::uint32_t n = next(12); n > 0; --n) {
      text += pieces[next(static_cast<std::uint32_t>(pieces.size()))];
    }
    read_anything(text, models);
  }
  CHECK(models > 100);  // some of it is right
  const std::string whole = "linear(3,4,bias=false) -> leaky_relu(negative_slope=0.1) -> dropout";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (std::uint32_t n = 1 + next(3); n > 0; --n) {
      text[next(static_cast<std::uint32_t>(text.size()))] = static_cast<char>(next(256));
    }
    read_anything(text.substr(0, next(2) == 0 ? text.size() : next(70)), models);
  }
}

}  // namespace
}  // namespace sinter
