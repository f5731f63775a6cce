// Sequential as a container: nesting, names, copies, moves.
#include <doctest/doctest.h>

#include "../autograd/values.h"
#include <sinter/layers/sequential.h>

namespace sinter {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

Names names_of(Module& model) {
  Names out;
  for (const NamedParameter& parameter : model.parameters()) {
    out.push_back(parameter.name);
  }
  return out;
}

TEST_CASE("names are torch's for the same nn.Sequential") {
  // torch.nn.Sequential(Flatten(), Linear(), ReLU(), Dropout(), Linear(), LeakyReLU(), Dropout(),
  // Linear(bias=False), Dropout(), Linear())
  Sequential model{Flatten{},   Linear{4, 4},      ReLU{.drop_p = 0.1},           Linear{4, 4},
                   LeakyReLU{}, Dropout{.p = 0.2}, Linear{4, 4, {.bias = false}}, Dropout{},
                   Linear{4, 2}};
  CHECK(names_of(model) ==
        Names{"1.weight", "1.bias", "4.weight", "4.bias", "7.weight", "9.weight", "9.bias"});
  // torch.nn.Sequential(Linear(), torch.nn.Sequential(Tanh(), Dropout(), Linear()), Linear())
  Sequential nest;
  nest.add(Linear{4, 4}).add(Sequential{Tanh{.drop_p = 0.5}, Linear{4, 4}}).add(Linear{4, 4});
  CHECK(names_of(nest) ==
        Names{"0.weight", "0.bias", "1.2.weight", "1.2.bias", "2.weight", "2.bias"});
}

TEST_CASE("a dropout probability of 0 is no module of its own") {
  Sequential model{ReLU{.drop_p = 0}, Linear{2, 2}};
  CHECK(names_of(model) == Names{"1.weight", "1.bias"});
}

TEST_CASE("add nests, braces around one Sequential copy it") {
  const Sequential inner{Linear{2, 3}, ReLU{}};
  Sequential copied{inner};
  CHECK(copied.size() == 2);
  Sequential nested;
  nested.add(inner);
  CHECK(nested.size() == 1);
  CHECK(names_of(nested) == Names{"0.0.weight", "0.0.bias"});
  Sequential both{inner, Linear{3, 1}};
  CHECK(both.size() == 2);
  CHECK(names_of(both) == Names{"0.0.weight", "0.0.bias", "1.weight", "1.bias"});
  CHECK(both(Tensor::zeros({5, 2})).shape() == Shape{5, 1});
  Sequential itself{Linear{2, 2}};
  itself.add(itself);
  CHECK(itself.size() == 2);
  CHECK(itself(Tensor::zeros({5, 2})).shape() == Shape{5, 2});
}

TEST_CASE("an empty Sequential is the identity") {
  Sequential model;
  const Tensor x = tensor({2, 3});
  CHECK(model(x).address() == x.address());
  CHECK(model.size() == 0);
  CHECK(model.parameters().empty());
  CHECK(model.text().empty());
}

TEST_CASE("layers are reached by number") {
  Sequential model{Linear{2, 3}, ReLU{.drop_p = 0.5}, Linear{3, 4}};
  CHECK(model.size() == 3);
  CHECK(dynamic_cast<Linear&>(model[2]).out_features() == 4);
  CHECK(dynamic_cast<ActivationModule&>(model[1]).drop_p == 0.5);
  CHECK(model[0].text() == "linear(2, 3)");
  check_error([&] { model[3]; }, {"Sequential", "layer 3", "there are 3"});
  check_error([&] { model[static_cast<std::size_t>(-1)]; }, {"there are 3"});
  // What is changed through the reference is changed in the model.
  dynamic_cast<ActivationModule&>(model[1]).drop_p = 1;
  const Tensor y = model(Tensor::full({1, 2}, 1.0));
  CHECK(same(y, linear(Tensor::zeros({1, 3}), dynamic_cast<Linear&>(model[2]).weight().value(),
                       dynamic_cast<Linear&>(model[2]).bias().value())));
}

TEST_CASE("a copy is deep") {
  Sequential model{Linear{2, 3}, Tanh{}, Sequential{Linear{3, 3}, ReLU{}}, Linear{3, 2}};
  const Tensor x = tensor({4, 2}, 1.0, 1, DType::float32);
  const Tensor before = model(x);
  {
    Tape tape;
    tape.backward(sum(model(x)));
  }
  Sequential copy = model;
  CHECK(same(copy(x), before));
  CHECK(names_of(copy) == names_of(model));
  const Parameters of_model = model.parameters();
  const Parameters of_copy = copy.parameters();
  for (std::size_t i = 0; i < of_model.size(); ++i) {
    CHECK(of_copy[i].value().address() != of_model[i].value().address());
    CHECK(of_model[i].grad().defined());
    CHECK_FALSE(of_copy[i].grad().defined());  // gradients are not copied
    Tensor value = of_copy[i].value().detach();
    value.fill(0.5);
  }
  CHECK(same(model(x), before));
  CHECK_FALSE(same(copy(x), before));
  Sequential assigned{Linear{7, 7}};
  assigned = model;
  CHECK(same(assigned(x), before));
  assigned = copy;
  CHECK(same(assigned(x), copy(x)));
  CHECK(same(model(x), before));
  assigned = *&assigned;
  CHECK(same(assigned(x), copy(x)));
}

TEST_CASE("a copy that nobody asked for its parameters is as deep") {
  Sequential model{Linear{2, 3}, Tanh{}};
  const Tensor x = tensor({4, 2}, 1.0, 1, DType::float32);
  const Tensor before = model(x);
  Sequential copy = model;
  Tensor weight = dynamic_cast<Linear&>(model[0]).weight().value().detach();
  weight.fill(0.5);
  CHECK(same(copy(x), before));
  CHECK_FALSE(same(model(x), before));
}

TEST_CASE("a copy keeps the mode, and its random numbers go on from the same state") {
  Sequential model{Linear{8, 8}, ReLU{.drop_p = 0.5}};
  const Tensor x = Tensor::full({16, 8}, 1.0);
  model(x);
  Sequential copy = model;
  const Tensor of_copy = copy(x);
  CHECK(same(model(x), of_copy));
  CHECK(copy.generator() != model.generator());
  CHECK_FALSE(same(model(x), of_copy));
  model.eval();
  const Sequential evaluating = model;
  CHECK_FALSE(evaluating.training());
  CHECK(copy.training());
}

TEST_CASE("copies of a model that is not drawn yet draw the same weights, whichever is first") {
  manual_seed(7);
  Sequential model{Linear{2, 3}, Tanh{}, Linear{3, 2}};
  Sequential copy = model;
  Sequential other{Linear{2, 3}, Tanh{}, Linear{3, 2}};
  const Tensor x = tensor({4, 2}, 1.0, 1, DType::float32);
  const Tensor of_copy = copy(x);
  const Tensor of_other = other(x);
  CHECK(same(model(x), of_copy));
  CHECK_FALSE(same(of_other, of_copy));
  manual_seed(7);
  Sequential again{Linear{2, 3}, Tanh{}, Linear{3, 2}};
  CHECK(same(again(x), of_copy));
}

TEST_CASE("a move takes everything along") {
  Sequential model{Linear{2, 3}, Tanh{}};
  const Tensor x = tensor({4, 2}, 1.0, 1, DType::float32);
  const Tensor before = model(x);
  const Parameters parameters = model.parameters();
  const std::byte* place = parameters[0].value().address();
  Sequential moved = std::move(model);
  CHECK(moved.parameters()[0].value().address() == place);
  CHECK(same(moved(x), before));
  Sequential target;
  target = std::move(moved);
  CHECK(target.parameters()[0].state == parameters[0].state);
  CHECK(same(target(x), before));
}

TEST_CASE("what was moved from can be filled and used again") {
  for (const bool used : {false, true}) {
    Sequential model{Linear{2, 3}, ReLU{.drop_p = 0.5}};
    if (used) {
      model(Tensor::zeros({1, 2}));
    }
    const Sequential taken = std::move(model);
    model.add(Linear{4, 5}).add(Dropout{.p = 0.5});
    CHECK(model(Tensor::zeros({2, 4})).shape() == Shape{2, 5});
    CHECK(names_of(model) == Names{"0.weight", "0.bias"});
    CHECK(model.generator() != nullptr);
  }
}

TEST_CASE("layers run from left to right, each once") {
  Sequential model{Softplus{}, Tanh{}, Sequential{Sigmoid{}, ReLU{}}, Flatten{}};
  const Tensor x = tensor({3, 2, 2});
  CHECK(same(model(x), flatten(relu(sigmoid(tanh(softplus(x)))))));
}

TEST_CASE("a part that grows joins the model, however deep it is") {
  Sequential model{Linear{2, 2}};
  model.add(Sequential{Linear{2, 2}, ReLU{}});
  CHECK(names_of(model).size() == 4);
  const Tensor x = tensor({3, 2}, 1.0, 1, DType::float32);
  const Tensor before = model(x);
  auto& inner = dynamic_cast<Sequential&>(model[1]);
  inner.add(Linear{2, 5});
  SUBCASE("asked for its parameters first") {
    CHECK(names_of(model) ==
          Names{"0.weight", "0.bias", "1.0.weight", "1.0.bias", "1.2.weight", "1.2.bias"});
    CHECK(model(x).shape() == Shape{3, 5});
  }
  SUBCASE("called first") {
    CHECK(model(x).shape() == Shape{3, 5});
    CHECK(names_of(model).size() == 6);
  }
  SUBCASE("moved first") {
    model.to(DType::float64);
    CHECK(model(x.to(DType::float64)).shape() == Shape{3, 5});
  }
  const Parameters all = model.parameters();
  CHECK(all[4].state->flat == all[0].state->flat);
  CHECK(dynamic_cast<Linear&>(inner[2]).generator() == model.generator());
  // What was there is as it was, and what is new is drawn, and differs from its neighbours.
  Sequential without = model;
  CHECK_FALSE(same(all[4].value(), all[0].value()));
  CHECK(largest_error(all[4].value(), Tensor::zeros({5, 2}, all[4].value().dtype())) > 0.01);
  const Tensor y = x.to(all[0].value().dtype());
  const Tensor hidden = model[0](y);
  CHECK(largest_error(dynamic_cast<Module&>(inner[1])(inner[0](hidden)), before) < 1e-6);
}

}  // namespace
}  // namespace sinter
