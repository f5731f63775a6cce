// A copy of a model is a deep one: nothing that is done to it shows in the model.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/attention.h>
#include <sinter/layers/residual.h>
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;

struct Copied {
  const char* text;
  Shape input;
  DType type = DType::float32;
};

// Each layer that has members, alone and in others.
const Copied models[] = {
    {"linear(4, 3) -> relu(drop_p=0.5)", {8, 4}},
    {"linear(4, 4) -> dropout(p=0.5) -> glu(drop_p=0.5)", {8, 4}},
    {"layer_norm(4) -> dropout(p=0.5)", {8, 4}},
    {"rms_norm(4) -> dropout(p=0.5)", {8, 4}},
    {"batch_norm1d(4, act=relu, drop_p=0.5)", {8, 4}},
    {"batch_norm2d(4, momentum=none) -> tanh(drop_p=0.5)", {8, 4, 3, 3}},
    {"conv1d(2, 3, 2) -> gelu(drop_p=0.5)", {8, 2, 4}},
    {"conv2d(2, 3, 2) -> gelu(drop_p=0.5)", {8, 2, 4, 4}},
    {"embedding(9, 4, padding_idx=1) -> dropout(p=0.5)", {8, 3}, DType::int64},
    {"multihead_attention(4, 2, drop_p=0.5)", {8, 3, 4}},
    {"residual(linear(4, 4) -> sequential(linear(4, 4) -> elu(drop_p=0.5)))", {8, 4}},
};

std::vector<std::vector<double>> values_of(Module& model) {
  std::vector<std::vector<double>> out;
  for (const NamedParameter& parameter : model.parameters()) {
    out.push_back(doubles(parameter.value()));
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    out.push_back(buffer.value.to(DType::float64).to_vector<double>());
  }
  return out;
}

void step(Module& model, const Tensor& x) {
  Tape tape;
  tape.backward(sum(model(x)));
}

TEST_CASE("a copy is of the same values, and its training leaves the model alone") {
  for (const Copied& one : models) {
    CAPTURE(one.text);
    Sequential model = Sequential::parse(one.text);
    const Tensor x = one.type == DType::float32 ? tensor(one.input, 1.0, 1, DType::float32)
                                                : Tensor::full(one.input, 3, one.type);
    step(model, x);
    const auto before = values_of(model);
    const auto gradient = doubles(model.parameters()[0].grad());
    const std::uint32_t at = model.generator()->step();
    Sequential copy = model;
    CHECK(values_of(copy) == before);
    CHECK_FALSE(copy.parameters()[0].grad().defined());
    CHECK(copy.generator() != model.generator());
    CHECK(copy.generator()->step() == at);

    step(copy, x);
    copy.eval();
    for (const NamedParameter& parameter : copy.parameters()) {
      Tensor value = parameter.value().detach();
      value.fill(7);
    }
    for (NamedBuffer& buffer : copy.buffers()) {
      buffer.value.fill(7);
    }
    CHECK(values_of(model) == before);
    CHECK(doubles(model.parameters()[0].grad()) == gradient);
    CHECK(model.generator()->step() == at);
    CHECK(model.training());
    CHECK(model[0].training());
  }
}

TEST_CASE("a copy goes on with the model's masks, and both with their own steps") {
  for (const Copied& one : models) {
    CAPTURE(one.text);
    Sequential model = Sequential::parse(one.text);
    const Tensor x = one.type == DType::float32 ? tensor(one.input, 1.0, 1, DType::float32)
                                                : Tensor::full(one.input, 3, one.type);
    step(model, x);
    Sequential copy = model;
    const Tensor expected = model(x);
    model(x);
    CHECK(same(copy(x), expected));
  }
}

TEST_CASE("a copy keeps the mode, what is frozen, the type, and the place") {
  const QuietFallback quiet;
  Sequential model{Linear{3, 4}, BatchNorm1d{4}, Dropout{}};
  model.to(DType::float64);
  model.to(Device::fake());
  model[1].eval();
  model.parameters()[1].set_trainable(false);
  Sequential copy = model;
  CHECK(copy.training());
  CHECK_FALSE(copy[1].training());
  CHECK_FALSE(copy.parameters()[1].state->trainable);
  CHECK(copy.parameters()[0].state->trainable);
  CHECK(copy.parameters()[0].value().dtype() == DType::float64);
  CHECK(copy.parameters()[0].value().device() == Device::fake());
  CHECK(copy.buffers()[0].value.device() == Device::fake());
  copy.parameters()[1].set_trainable(true);
  copy.to(Device::cpu());
  CHECK_FALSE(model.parameters()[1].state->trainable);
  CHECK(model.parameters()[0].value().device() == Device::fake());
}

}  // namespace
}  // namespace sinter
