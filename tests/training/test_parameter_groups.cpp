// Groups of parameters: each is what an optimizer of its own would be, as in torch.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "data_files.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

std::vector<double> values_of(const Parameters& parameters) {
  std::vector<double> out;
  for (const NamedParameter& parameter : parameters) {
    const auto values = parameter.value().detach().to(DType::float64).to_vector<double>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

struct Net {
  Sequential model;
  Parameters all;

  Net() : model(drawn()), all(model.parameters()) {}
  static Sequential drawn() {
    manual_seed(8);
    return Sequential{Linear{3, 70}, Tanh{}, Linear{70, 9}, Tanh{}, Linear{9, 2}};
  }
  void backward(int step) {
    const double shift = 0.1 * step;
    std::vector<float> x;
    for (int i = 0; i < 12; ++i) {
      x.push_back(static_cast<float>(std::sin(1.3 * i + shift)));
    }
    Tape tape;
    tape.backward(mse_loss(model(Tensor::from(x, {4, 3})), Tensor::full({4, 2}, shift)));
  }
  Parameters weights() { return matching(all, "*.weight"); }
  Parameters biases() { return matching(all, "*.bias"); }
};

// An optimizer of two groups, weights and biases, against two optimizers. Rates are powers of two
// apart, so that a ratio takes no rounding.
template <class O, class Options>
void check_groups(const Options& options) {
  Net grouped, apart;
  Options of_weights = options, of_biases = options;
  of_weights.weight_decay = 0.125;
  of_biases.lr = options.lr / 4;
  // Not in the model's order.
  O optimizer{{{.parameters = grouped.biases(), .lr = of_biases.lr},
               {.parameters = grouped.weights(), .weight_decay = 0.125}},
              options};
  O first{apart.weights(), of_weights}, second{apart.biases(), of_biases};
  for (int step = 0; step < 5; ++step) {
    if (step == 3) {  // a schedule's doing
      optimizer.set_lr(options.lr / 2);
      first.set_lr(of_weights.lr / 2);
      second.set_lr(of_biases.lr / 2);
    }
    grouped.backward(step);
    apart.backward(step);
    optimizer.step();
    first.step();
    second.step();
    CAPTURE(step);
    CHECK(values_of(grouped.all) == values_of(apart.all));
  }
  CHECK(optimizer.steps() == 5);
}

}  // namespace

TEST_CASE("a group is what an optimizer of its own would be") {
  check_groups<SGD>(SGDOptions{.lr = 0.5});
  check_groups<SGD>(SGDOptions{.lr = 0.5, .momentum = 0.9, .nesterov = true});
  check_groups<Adam>(AdamOptions{.lr = 0.25});
  check_groups<Adam>(AdamOptions{.lr = 0.25, .amsgrad = true});
  check_groups<AdamW>(AdamWOptions{.lr = 0.25});
  check_groups<RMSprop>(RMSpropOptions{.lr = 0.125, .momentum = 0.5, .centered = true});
  check_groups<Adagrad>(AdagradOptions{.lr = 0.25, .lr_decay = 0.1});
  check_groups<NAdam>(NAdamOptions{.lr = 0.25, .decoupled = true});
  check_groups<RAdam>(RAdamOptions{.lr = 0.25});
}

TEST_CASE("rates and decays of groups follow what is set") {
  Net net;
  AdamW optimizer{{{.parameters = net.model[0].parameters(), .lr = 0.025},
                   {.parameters = net.model[2].parameters(), .weight_decay = 0.25},
                   {.parameters = net.model[4].parameters()}},
                  {.lr = 0.1}};
  CHECK(optimizer.group_count() == 3);
  CHECK(optimizer.lr(0) == doctest::Approx(0.025).epsilon(1e-15));
  CHECK(optimizer.lr(1) == 0.1);
  CHECK(optimizer.weight_decay(0) == 0.01);  // torch's default
  CHECK(optimizer.weight_decay(1) == 0.25);
  optimizer.set_lr(0.2);
  CHECK(optimizer.lr(0) == doctest::Approx(0.05).epsilon(1e-15));
  CHECK(optimizer.lr(2) == 0.2);
  optimizer.set_lr(0);  // the end of a schedule forgets no ratio
  optimizer.set_lr(0.1);
  CHECK(optimizer.lr(0) == doctest::Approx(0.025).epsilon(1e-15));
  optimizer.set_lr_scale(2, 3);
  CHECK(optimizer.lr_scale(2) == 3);
  CHECK(optimizer.lr(2) == doctest::Approx(0.3).epsilon(1e-15));
  CHECK(SGD{net.all}.group_count() == 1);
}

TEST_CASE("matrices decay and vectors do not, in one line") {
  // Without a slope AdamW's step is the decay alone: w (1 - lr weight_decay).
  Net net;
  const auto before = values_of(net.all);
  AdamW optimizer{weight_decay_groups(net.all), {.lr = 0.125, .weight_decay = 0.5}};
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    tape.backward(sum(net.model(Tensor::full({2, 3}, 1))) * 0.0);
    optimizer.step();
  }
  std::size_t at = 0;
  for (const NamedParameter& parameter : net.all) {
    const double factor = parameter.name.ends_with("weight") ? std::pow(1 - 0.125 * 0.5, 3) : 1;
    for (const double value : values_of({parameter})) {
      CHECK(value == doctest::Approx(before[at] * factor).epsilon(1e-6));
      if (factor == 1) {
        CHECK(value == before[at]);
      }
      ++at;
    }
  }
  CHECK(at == before.size());
  // All of one kind are one group.
  CHECK(weight_decay_groups(net.biases()).size() == 1);
}

TEST_CASE("a frozen layer of a group stays, and the others go on as without it") {
  Net net, reference;
  SGD optimizer{{{.parameters = net.model[0].parameters(), .lr = 0.5},
                 {.parameters = net.model[2].parameters()},
                 {.parameters = net.model[4].parameters()}},
                {.lr = 0.25, .momentum = 0.5, .weight_decay = 0.1}};
  SGD only{{{.parameters = reference.model[0].parameters(), .lr = 0.5},
            {.parameters = reference.model[4].parameters()}},
           {.lr = 0.25, .momentum = 0.5, .weight_decay = 0.1}};
  const auto frozen = values_of(net.model[2].parameters());
  for (const NamedParameter& parameter : net.model[2].parameters()) {
    parameter.set_trainable(false);
  }
  for (int step = 0; step < 3; ++step) {
    net.backward(step);
    reference.backward(step);
    optimizer.step();
    only.step();
  }
  CHECK(values_of(net.model[2].parameters()) == frozen);
  CHECK(values_of(net.all) == values_of(reference.all));
  // Thawed, it learns.
  for (const NamedParameter& parameter : net.model[2].parameters()) {
    parameter.set_trainable(true);
  }
  net.backward(3);
  optimizer.step();
  CHECK(values_of(net.model[2].parameters()) != frozen);
}

TEST_CASE("groups in any order leave the model's layout alone") {
  Net net;
  SGD optimizer{{{.parameters = net.biases()}, {.parameters = net.weights()}}, {.lr = 0.1}};
  const auto* before = net.all.front().value().address();
  for (int step = 0; step < 2; ++step) {
    net.backward(step);
    optimizer.step();
    net.model.parameters();
    CHECK(net.all.front().value().address() == before);
  }
  // And follow the model to another type and back.
  net.model.to(DType::float64);
  net.all.front().set_trainable(false);
  Tape tape;
  tape.backward(sum(net.model(Tensor::full({1, 3}, 1, DType::float64))));
  optimizer.step();
  CHECK(optimizer.steps() == 3);
}

TEST_CASE("names are matched by * and ?") {
  Net net;
  const auto names = [&](const char* pattern) {
    std::string out;
    for (const NamedParameter& parameter : matching(net.all, pattern)) {
      out += parameter.name + " ";
    }
    return out;
  };
  CHECK(names("2.weight") == "2.weight ");
  CHECK(names("?.bias") == "0.bias 2.bias 4.bias ");
  CHECK(names("4*") == "4.weight 4.bias ");
  CHECK(names("*w*t") == "0.weight 2.weight 4.weight ");
  CHECK(names("**").size() == names("*").size());
  CHECK(sentence_of([&] { names("2.weigh"); }) ==
        "matching: none of 6 parameters is named like \"2.weigh\"; the first is 0.weight");
  check_refused([] { matching({}, "*"); }, {"matching", "0 parameters"});
  check_refused([&] { names(""); }, {"like \"\""});
}

TEST_CASE("groups that cannot be are one sentence") {
  Net net;
  CHECK(sentence_of([&] {
          SGD{{{.parameters = net.weights()}, {.parameters = net.all}}, {.lr = 0.1}};
        }) == "SGD: parameter 0.weight is given twice, in groups 0 and 1");
  check_refused(
      [&] {
        SGD{{{.parameters = net.all}, {.parameters = {}}}, {.lr = 0.1}};
      },
      {"SGD: group 1 has no parameters"});
  check_refused([&] { SGD{ParameterGroups{}, {.lr = 0.1}}; }, {"SGD", "no parameters to optimise"});
  check_refused([&] { AdamW{{{.parameters = net.all, .lr = -1.0}}, {}}; }, {"AdamW: lr", "-1"});
  check_refused([&] { AdamW{{{.parameters = net.all, .lr = NAN}}, {}}; }, {"AdamW: lr", "nan"});
  check_refused(
      [&] {
        AdamW{{{.parameters = net.all, .weight_decay = -1.0}}, {}};
      },
      {"AdamW: weight_decay", "-1"});
  check_refused(
      [&] {
        SGD{{{.parameters = net.all, .lr = 0.1}}, {.lr = 0}};
      },
      {"SGD: group 0", "0.1", "ratio"});
  SGD optimizer{net.all, {.lr = 0.1}};
  CHECK(sentence_of([&] { (void)optimizer.lr(1); }) ==
        "SGD: there is no group 1, but 1, counted from 0");
  check_refused([&] { optimizer.set_lr_scale(0, NAN); }, {"SGD: lr_scale", "nan"});
  check_refused([&] { optimizer.set_weight_decay(2, 0); }, {"no group 2"});

  struct Plain : Optimizer {
    explicit Plain(ParameterGroups groups) : Optimizer("Plain", std::move(groups), 1, 0) {}
    void update(Tensor&, const Tensor&, std::vector<Tensor>&) override {}
  };
  check_refused([&] { Plain{{{.parameters = net.all, .weight_decay = 0.5}}}; },
                {"Plain", "no weight decay", "group 0", "0.5"});
}

TEST_CASE("a checkpoint holds the groups' rates and decays, and fits no other groups") {
  Net net;
  const auto made = [&] {
    return std::make_unique<AdamW>(
        ParameterGroups{{.parameters = net.model[0].parameters(), .lr = 0.3},  // weight, bias,
                        {.parameters = net.model[2].parameters(), .weight_decay = 0.5}},  // again
        AdamWOptions{.lr = 0.1});
  };
  const auto saved = made(), loaded = made();
  net.backward(1);
  saved->step();
  saved->set_lr(0.7);
  saved->set_lr_scale(1, 0.1);
  saved->set_weight_decay(0, 0.25);
  const testing::TempFolder folder;
  save_checkpoint(folder / "run.safetensors", net.model, {{"optimizer", saved.get()}});
  load_checkpoint(folder / "run.safetensors", net.model, {{"optimizer", loaded.get()}});
  for (const std::size_t g : {0, 1}) {
    CHECK(loaded->lr(g) == saved->lr(g));
    CHECK(loaded->weight_decay(g) == saved->weight_decay(g));
  }
  CHECK(loaded->steps() == 1);
  CHECK(loaded->state()[0].to_vector<float>() == saved->state()[0].to_vector<float>());

  AdamW other{{{.parameters = {net.all[0]}}, {.parameters = {net.all[1], net.all[2], net.all[3]}}},
              {.lr = 0.1}};
  check_refused(
      [&] {
        load_checkpoint(folder / "run.safetensors", net.model, {{"optimizer", &other}});
      },
      {"optimizer"});
}

namespace {

// Keeps what each replay finds for constants, on a device without kernels.
struct Spy : Optimizer {
  explicit Spy(ParameterGroups groups) : Optimizer("Spy", std::move(groups), 1, 0, 0.5) {}
  void update(Tensor&, const Tensor&, std::vector<Tensor>&) override {
    const auto args = args_of_step<math::SgdConstants<double>>([](const StepOptions& now) {
      return math::SgdConstants<double>{now.lr, static_cast<double>(now.step), 1, now.weight_decay,
                                        false};
    });
    if (args.live.defined()) {
      Tensor copy = Tensor::empty(args.live.shape(), DType::uint8, Device::fake());
      copy.copy_from(args.live);
      seen.push_back(copy);
    }
  }
  math::SgdConstants<float> constants(std::size_t k) {
    math::SgdConstants<float> out;
    const auto bytes = seen[k].to_vector<std::uint8_t>();
    REQUIRE(bytes.size() == sizeof out);
    std::memcpy(&out, bytes.data(), sizeof out);
    return out;
  }
  std::vector<Tensor> seen;
};

}  // namespace

TEST_CASE("a replay finds each group's rates as they are by then") {
  Net net;
  net.model.to(Device::fake());
  Spy optimizer{{{.parameters = net.weights(), .lr = 0.5},
                 {.parameters = matching(net.all, "4.bias"), .weight_decay = 0}}};
  const auto step = [&] {
    net.all[4].value().leaf()->fresh = true;  // 4.weight and
    net.all[5].value().leaf()->fresh = true;  // 4.bias, side by side, of two groups
    optimizer.step();
  };
  step();
  Graph graph(Device::fake());
  graph.record([&] {
    step();
    step();
  });
  REQUIRE(optimizer.seen.size() == 4);
  graph.replay();
  CHECK(optimizer.steps() == 3);
  CHECK(optimizer.constants(0).lr == 0.5f);
  CHECK(optimizer.constants(1).lr == 1.0f);
  CHECK(optimizer.constants(2).momentum == 3);  // the step
  CHECK(optimizer.constants(2).weight_decay == 0.5f);
  CHECK(optimizer.constants(3).weight_decay == 0);
  optimizer.set_coming_lrs({4, 8});
  optimizer.set_weight_decay(1, 0.25);
  optimizer.set_lr_scale(1, 0.125);
  graph.replay();
  CHECK(optimizer.constants(0).lr == 2);
  CHECK(optimizer.constants(1).lr == 0.5f);
  CHECK(optimizer.constants(2).lr == 4);
  CHECK(optimizer.constants(3).lr == 1);
  CHECK(optimizer.constants(3).weight_decay == 0.25f);
  CHECK(optimizer.constants(3).momentum == 5);
}
