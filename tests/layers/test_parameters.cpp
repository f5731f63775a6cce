// A model's parameters: one flat buffer, handles that stay valid, and parts that are frozen.
#include <memory>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/convolution.h>
#include <sinter/layers/embedding.h>
#include <sinter/layers/norms.h>
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

Sequential example() {
  return Sequential{Linear{3, 70}, Tanh{}, Linear{70, 5}, Sigmoid{}, Linear{5, 1}};
}

void backward(Sequential& model, DType dtype = DType::float32, Device device = {}) {
  const Tensor x = tensor({4, 3}, 1.0, 1, dtype).to(device);
  Tape tape;
  tape.backward(sum(model(x)));
}

std::ptrdiff_t distance(const Tensor& from, const Tensor& to) {
  return to.address() - from.address();
}

// All values in one buffer, all gradients in another, each at a multiple of 256 bytes, in order.
void check_flat(const Parameters& parameters, std::int64_t element_size) {
  const std::shared_ptr<FlatBuffer> flat = parameters.front().state->flat;
  REQUIRE(flat != nullptr);
  std::int64_t expected = 0;
  for (const NamedParameter& parameter : parameters) {
    CAPTURE(parameter.name);
    const ParameterState& state = *parameter.state;
    CHECK(state.flat == flat);
    CHECK(distance(flat->values, state.value) == expected);
    CHECK(reinterpret_cast<std::uintptr_t>(state.value.address()) % 256 == 0);
    CHECK(state.offset * element_size == expected);
    REQUIRE(state.value.leaf() != nullptr);
    CHECK(distance(flat->gradients, state.value.leaf()->grad) == expected);
    CHECK(state.value.storage()->whole() == flat->values.storage());
    expected += (state.shape.numel() * element_size + 255) / 256 * 256;
  }
  CHECK(flat->values.numel() * element_size == expected);
  CHECK(flat->gradients.numel() == flat->values.numel());
}

// Elements of a flat buffer that belong to no parameter.
Numbers padding(const Tensor& buffer, const Parameters& parameters) {
  Numbers values = doubles(buffer);
  for (const NamedParameter& parameter : parameters) {
    for (std::int64_t i = 0; i < parameter.state->shape.numel(); ++i) {
      values[static_cast<std::size_t>(parameter.state->offset + i)] = 0;
    }
  }
  return values;
}

TEST_CASE("parameters and gradients lie in one flat buffer each") {
  Sequential model = example();
  const Parameters parameters = model.parameters();
  CHECK(parameters.size() == 6);
  CHECK(numel(parameters) == 3 * 70 + 70 + 70 * 5 + 5 + 5 + 1);
  check_flat(parameters, 4);
  CHECK(padded_numel(*parameters[0].state) == 256);  // 210 float32 in 256-byte steps
  CHECK(padded_numel(*parameters[1].state) == 128);
  CHECK(padded_numel(*parameters[5].state) == 64);
  const FlatBuffer& flat = *parameters[0].state->flat;
  const Numbers zeros(static_cast<std::size_t>(flat.values.numel()), 0.0);
  CHECK(padding(flat.values, parameters) == zeros);
  CHECK(doubles(flat.gradients) == zeros);
  backward(model);
  CHECK(padding(flat.gradients, parameters) == zeros);
  for (const NamedParameter& parameter : parameters) {
    const Numbers gradient = doubles(parameter.grad());
    CHECK(std::ranges::any_of(gradient, [](double g) { return g != 0; }));
    // Seen through the flat buffer, it is the same.
    CHECK(doubles(flat.gradients.slice(parameter.state->offset, parameter.state->shape)) ==
          gradient);
  }
}

TEST_CASE("asking again changes nothing, and a part of the model is laid out already") {
  Sequential model = example();
  const Parameters first = model.parameters();
  backward(model);
  const Numbers gradient = doubles(first[2].grad());
  const Parameters second = model.parameters();
  const Parameters part = model[2].parameters();
  CHECK(part[0].name == "weight");
  CHECK(part[0].state == first[2].state);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].state == second[i].state);
    CHECK(first[i].name == second[i].name);
  }
  check_flat(model.parameters(), 4);
  CHECK(first[0].state->flat == second[0].state->flat);
  CHECK(doubles(first[2].grad()) == gradient);
}

TEST_CASE("a model that grows keeps values and gradients, and handles to them") {
  Sequential model{Linear{3, 4}};
  const Parameters before = model.parameters();
  backward(model);
  const Numbers value = doubles(before[0].value());
  const Numbers gradient = doubles(before[0].grad());
  model.add(Linear{4, 2});
  const Parameters after = model.parameters();
  CHECK(after.size() == 4);
  check_flat(after, 4);
  CHECK(before[0].state == after[0].state);
  CHECK(doubles(before[0].value()) == value);
  CHECK(doubles(before[0].grad()) == gradient);
}

TEST_CASE("a write to the flat buffer is a write to every parameter") {
  Sequential model = example();
  const Parameters parameters = model.parameters();
  const std::uint64_t version = parameters[1].value().version();
  parameters[0].state->flat->values.fill(0.5);
  for (const NamedParameter& parameter : parameters) {
    CHECK(doubles(parameter.value()) ==
          Numbers(static_cast<std::size_t>(parameter.value().numel()), 0.5));
  }
  CHECK(parameters[1].value().version() > version);
  Tape tape;
  const Tensor loss = sum(model(tensor({4, 3}, 1.0, 1, DType::float32)));
  parameters[0].state->flat->values.fill(0.25);  // as an optimizer step in the wrong place does
  check_error([&] { tape.backward(loss); }, {"linear", "optimizer step"});
}

TEST_CASE("to(DType) keeps handles valid, drops gradients and lays out anew") {
  Sequential model = example();
  const Parameters parameters = model.parameters();
  backward(model);
  const Tensor stale = parameters[0].value();
  const Numbers values = doubles(parameters[0].value());
  model.to(DType::float64);
  CHECK(parameters[0].value().dtype() == DType::float64);
  CHECK(doubles(parameters[0].value()) == values);
  CHECK_FALSE(parameters[0].grad().defined());
  CHECK(stale.dtype() == DType::float32);
  check_flat(parameters, 8);
  check_flat(model.parameters(), 8);
  backward(model, DType::float64);
  CHECK(parameters[0].grad().dtype() == DType::float64);
  check_flat(parameters, 8);
  model.to(DType::bfloat16);
  check_flat(parameters, 2);
  backward(model, DType::bfloat16);
  CHECK(parameters[0].grad().dtype() == DType::bfloat16);
  check_error([&] { model.to(DType::int32); }, {"Module::to", "int32", "floating"});
}

TEST_CASE("to(Device) keeps handles valid and computes there through the fallback") {
  const QuietFallback quiet;
  Sequential model{Flatten{}, Linear{12, 7}, GELU{.drop_p = 0.25}, Linear{7, 3}};
  model.set_generator(std::make_shared<Generator>(4));
  Sequential on_cpu = model;
  const Parameters parameters = model.parameters();
  const Parameters expected = on_cpu.parameters();
  const Tensor x = tensor({5, 3, 4}, 1.0, 1, DType::float32);
  const Tensor labels = Tensor::from<std::int64_t>({0, 2, 1, 1, 0}, {5});
  const auto step = [&](Sequential& trained, Device device) {
    Tape tape;
    const Tensor y = trained(x.to(device));
    const Tensor loss = cross_entropy(y, labels.to(device));
    CHECK(y.device() == device);
    tape.backward(loss);
    return std::pair{y.detach(), loss.detach()};
  };
  model.to(Device::fake());
  for (const NamedParameter& parameter : parameters) {
    CHECK(parameter.value().device() == Device::fake());
  }
  check_flat(parameters, 4);
  const std::int64_t fallbacks = fallback_count("linear_forward");
  const auto [y, loss] = step(model, Device::fake());
  CHECK(fallback_count("linear_forward") == fallbacks + 2);
  const auto [y_on_cpu, loss_on_cpu] = step(on_cpu, Device::cpu());
  CHECK(fallback_count("linear_forward") == fallbacks + 2);
  CHECK(same(y, y_on_cpu));
  CHECK(same(loss, loss_on_cpu));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(parameters[i].grad().device() == Device::fake());
    CHECK(same(parameters[i].grad(), expected[i].grad()));
  }
  model.to(Device::cpu());
  CHECK_FALSE(parameters[0].grad().defined());
  model.eval();
  on_cpu.eval();
  CHECK(same(model(x), on_cpu(x)));
  check_error([&] { model.to(Device::cuda(99)); }, {"cuda"});
  CHECK(parameters[0].value().device() == Device::cpu());
}

TEST_CASE("a parameter that is not trainable gets no gradient") {
  Sequential model = example();
  auto& first = dynamic_cast<Linear&>(model[0]);
  first.weight().set_trainable(false);
  const Parameters parameters = model.parameters();
  parameters[1].set_trainable(false);
  const Numbers frozen = doubles(parameters[0].value());
  backward(model);
  CHECK_FALSE(parameters[0].grad().defined());
  CHECK_FALSE(parameters[1].grad().defined());
  CHECK_FALSE(parameters[0].value().requires_grad());
  CHECK(parameters[2].grad().defined());
  CHECK(doubles(parameters[0].value()) == frozen);
  // It has its place among the others, and copies are frozen too.
  CHECK(parameters[0].state->flat == parameters[2].state->flat);
  Sequential copy = model;
  backward(copy);
  CHECK_FALSE(copy.parameters()[0].grad().defined());
  {
    Tape tape;
    first.bias().set_trainable(true);
    model(tensor({4, 3}, 1.0, 1, DType::float32));
    CHECK(tape.size() == 3);
  }
}

template <class Layer>
void check_frozen_weight(Layer layer, const Tensor& x) {
  INFO(layer.text());
  layer.weight().set_trainable(false);
  if constexpr (requires { layer.bias(); }) {
    {
      Tape tape;
      tape.backward(sum(layer(x)));
    }
    CHECK_FALSE(layer.weight().value().grad().defined());
    CHECK(layer.bias().value().grad().defined());
    layer.bias().set_trainable(false);
  }
  Tape tape;
  layer(x);
  CHECK(tape.size() == 0);
}

TEST_CASE("every layer's weight and bias can be frozen") {
  const Tensor rows = tensor({4, 3}, 1.0, 1, DType::float32);
  const Tensor images = tensor({2, 3, 4, 4}, 1.0, 1, DType::float32);
  check_frozen_weight(Linear{3, 2}, rows);
  check_frozen_weight(Conv1d{3, 2, 2}, tensor({2, 3, 5}, 1.0, 1, DType::float32));
  check_frozen_weight(Conv2d{3, 2, 2}, images);
  check_frozen_weight(BatchNorm1d{3}, rows);
  check_frozen_weight(BatchNorm2d{3}, images);
  check_frozen_weight(LayerNorm{3}, rows);
  check_frozen_weight(RMSNorm{3}, rows);
  check_frozen_weight(Embedding{5, 3}, Tensor::zeros({4}, DType::int64));
  CHECK_FALSE(Conv2d{3, 2, 2, {.bias = false}}.bias().present());
  CHECK_FALSE(BatchNorm1d{3, {.affine = false}}.weight().present());
  CHECK_FALSE(LayerNorm{3, {.bias = false}}.bias().present());
  CHECK_FALSE(RMSNorm{3, {.elementwise_affine = false}}.weight().present());
}

TEST_CASE("a parameter that is trainable again has its gradient in the flat buffer") {
  Sequential model = example();
  Parameter& weight = dynamic_cast<Linear&>(model[0]).weight();
  SUBCASE("frozen before it was drawn") { weight.set_trainable(false); }
  SUBCASE("frozen with a gradient") {
    backward(model);
    weight.set_trainable(false);
  }
  SUBCASE("frozen, then converted") {
    backward(model);
    weight.set_trainable(false);
    model.to(DType::float64);
  }
  const Parameters parameters = model.parameters();
  const DType dtype = parameters[0].value().dtype();
  weight.set_trainable(true);
  CHECK_FALSE(parameters[0].grad().defined());  // what it had then is stale
  check_flat(parameters, static_cast<std::int64_t>(size_of(dtype)));
  for (const NamedParameter& parameter : parameters) {
    Tensor value = parameter.value();
    value.clear_grad();
  }
  backward(model, dtype);
  CHECK(parameters[0].grad().dtype() == dtype);
  const ParameterState& state = *parameters[0].state;
  CHECK(same(state.flat->gradients.slice(state.offset, state.shape), parameters[0].grad()));
  weight.set_trainable(true);  // nothing new, so nothing is lost
  CHECK(parameters[0].grad().defined());
}

TEST_CASE("a first layer that is frozen costs no backward of its own") {
  Sequential model{Linear{3, 4}, ReLU{}, Linear{4, 2}};
  auto& first = dynamic_cast<Linear&>(model[0]);
  first.weight().set_trainable(false);
  first.bias().set_trainable(false);
  Tape tape;
  model(tensor({4, 3}, 1.0, 1, DType::float32));
  CHECK(tape.size() == 1);  // nothing below the last layer is recorded
}

}  // namespace
}  // namespace sinter
