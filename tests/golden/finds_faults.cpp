// golden_check_finds_faults CHECKER DATA: a check that cannot fail proves nothing. Plants faults in
// copies of the reference values and demands that golden_check is red on each, for the right
// reason, and green on an untouched copy.
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "trials.h"

namespace golden {
namespace {

namespace fs = std::filesystem;

double& value(Tensors& tensors, const std::string& name, std::int64_t i) {
  return tensors.at(name).data<double>()[i];
}

void scale(sinter::Tensor& tensor, double factor) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<double>()[i] *= factor;
  }
}

Json& case_of(Json& cases, const std::string& id) {
  for (Json& entry : cases) {
    if (entry.at("id") == id) {
      return entry;
    }
  }
  throw std::runtime_error("the reference values have no case " + id);
}

void drop_case(Json& cases, const std::string& id) {
  cases.erase(cases.begin() + (&case_of(cases, id) - &cases.front()));
}

void untouched(Trials& trials) {
  // Written down here, for a case gone from both list and tensors leaves no other trace.
  const std::pair<const char*, std::size_t> groups[] = {
      {"activations", 28}, {"layers", 38}, {"losses", 37}, {"optim", 21}, {"training", 3}};
  std::size_t listed = 0;
  for (const auto& [group, cases] : groups) {
    const std::size_t found = trials.every_case(group, "").size();
    trials.demand(found == cases, std::string(group) + " has " + std::to_string(found) + " cases",
                  {});
    listed += found;
  }
  const Copy copy(trials.data());
  for (const char* dtype : {"f64", "f32", "f16", "bf16"}) {
    const Outcome outcome = trials.run(copy.path(), dtype);
    trials.demand(
        outcome.status == 0 && outcome.failed == 0 && outcome.passed + outcome.skipped == listed,
        std::string("an untouched copy is to be green in ") + dtype, outcome);
  }
}

// Values just outside what is allowed, in every activation.
void wrong_activations(Trials& trials) {
  const auto scale_all = [](const std::string& what, double factor) {
    return [what, factor](const Copy& copy) {
      copy.edit_tensors("activations", [&](Tensors& tensors) {
        for (auto& [name, tensor] : tensors) {
          if (name.ends_with(what)) {
            scale(tensor, factor);
          }
        }
      });
    };
  };
  const Lines y = trials.every_case("activations", " y");
  trials.red("every y off by 1e-11", "f64", scale_all("/y", 1 + 1e-11), y);
  trials.red("every dydx off by 1e-6", "f64", scale_all("/dydx", 1 + 1e-6),
             trials.every_case("activations", " dydx"));
  trials.red("every y off by 4 ulp", "f32", scale_all("/y", 1 + 0x1p-21), y);
  trials.red("every y off by 3 ulp", "f16", scale_all("/y", 1 + 3 * 0x1p-10), y);
  trials.red("every y off by 3 ulp", "bf16", scale_all("/y", 1 + 3 * 0x1p-7), y);
}

// One wrong number in each kind of tensor.
void wrong_values(Trials& trials) {
  const auto plant = [](double change) {
    return [change](const Copy& copy) {
      copy.edit_tensors("activations", [&](Tensors& t) { value(t, "mish_13/y", 120) += change; });
      copy.edit_tensors("layers", [&](Tensors& t) {
        value(t, "linear_5x7x3_1/y", 14) += change;
        value(t, "linear_33x17x10_0/grad_param_weight", 7) += change;
        value(t, "linear_3d/grad_param_bias", 3) += change;
        value(t, "flatten/grad_x", 0) += change;
      });
      copy.edit_tensors("losses", [&](Tensors& t) {
        value(t, "mseloss_sum/y", 0) += change * 100;  // of a sum near 124
        value(t, "crossentropy_weight_none/grad_x", 44) += change;
        value(t, "crossentropy_extreme/grad_x", 5) += change;
      });
      copy.edit_tensors("optim", [&](Tensors& t) { value(t, "adam_5/p", 83) += change; });
      copy.edit_tensors("training", [&](Tensors& t) {
        value(t, "mlp_relu_sgd/final/4.bias", 2) += change;
        value(t, "mlp_tanh_adamw/loss", 29) += change;
      });
    };
  };
  const Lines complaints{"mish_13 y",
                         "linear_5x7x3_1 y",
                         "linear_33x17x10_0 grad_param_weight",
                         "linear_3d grad_param_bias",
                         "flatten grad_x",
                         "mseloss_sum y",
                         "crossentropy_weight_none grad_x",
                         "crossentropy_extreme grad_x",
                         "adam_5 p",
                         "mlp_relu_sgd final/4.bias",
                         "mlp_tanh_adamw loss"};
  trials.red("one number off by 1e-8", "f64", plant(1e-8), complaints);
  trials.red("one number off by 1e-3", "f32", plant(1e-3), complaints);
  for (const char* dtype : {"f64", "f32"}) {
    using Limits = std::numeric_limits<double>;
    trials.red("one number is NaN", dtype, plant(Limits::quiet_NaN()), complaints);
    trials.red("one number is infinite", dtype, plant(Limits::infinity()), complaints);
  }
}

void wrong_formulas(Trials& trials) {
  const auto swap = [](const char* what) {
    return [what](const Copy& copy) {
      copy.edit_tensors("activations", [&](Tensors& tensors) {
        std::swap(tensors.at(std::string("silu_6/") + what),
                  tensors.at(std::string("gelu_4/") + what));
      });
    };
  };
  for (const char* dtype : {"f64", "f32", "f16", "bf16"}) {
    trials.red("y of silu and gelu swapped", dtype, swap("y"), {"silu_6 y", "gelu_4 y"});
    trials.red("dydx of silu and gelu swapped", dtype, swap("dydx"),
               {"silu_6 dydx", "gelu_4 dydx"});
  }
  trials.red(
      "another formula or coefficient", "f64",
      [](const Copy& copy) {
        const auto change = [&](const char* group, const char* id, const char* arg, Json to) {
          copy.edit_list(group, [&](Json& cases) { case_of(cases, id).at("args")[arg] = to; });
        };
        change("activations", "gelu_5", "approximate", "none");
        change("activations", "hardtanh_10", "max_val", 0.51);
        change("activations", "softplus_15", "beta", 2.01);
        change("activations", "leaky_relu_19", "negative_slope", 0.201);
        change("activations", "elu_21", "alpha", 0.701);
        change("activations", "celu_23", "alpha", 1.701);
        change("activations", "softshrink_27", "lambd", 1.251);
        change("losses", "crossentropy_smooth_mean", "label_smoothing", 0.101);
        change("losses", "mseloss_none", "reduction", "sum");
        change("optim", "sgd_1", "momentum", 0.901);
        change("optim", "sgd_2", "nesterov", false);
        change("optim", "sgd_3", "dampening", 0.201);
        change("optim", "adam_5", "betas", Json::array({0.8, 0.951}));
        change("optim", "adamw_7", "weight_decay", 0.101);
        change("training", "mlp_gelu_adam", "activation", "SiLU");
      },
      {"gelu_5 y", "hardtanh_10 y", "softplus_15 y", "leaky_relu_19 y", "elu_21 y", "celu_23 y",
       "softshrink_27 y", "crossentropy_smooth_mean y", "mseloss_none y", "sgd_1 p", "sgd_2 p",
       "sgd_3 p", "adam_5 p", "adamw_7 p", "mlp_gelu_adam loss"});
}

void dropped_cases(Trials& trials) {
  trials.red("cases dropped from the lists", "f32",
             [](const Copy& copy) {
               copy.edit_list("activations", [](Json& cases) { drop_case(cases, "tanh_2"); });
               copy.edit_list("layers", [](Json& cases) { drop_case(cases, "conv1d"); });
             },
             {"activations: activations.safetensors holds tensors of tanh_2", "layers: "});
  trials.red(
      "tensors dropped", "f32",
      [](const Copy& copy) {
        copy.edit_tensors("losses", [](Tensors& tensors) {
          std::erase_if(tensors, [](const auto& t) { return t.first.starts_with("mseloss_sum/"); });
        });
        copy.edit_tensors("layers", [](Tensors& t) { t.erase("linear_3d/grad_param_bias"); });
        copy.edit_tensors("training", [](Tensors& t) { t.erase("mlp_relu_sgd/final/2.weight"); });
        copy.edit_tensors("optim", [](Tensors& t) { t.erase("steplr/lr"); });  // of a skipped case
      },
      {"mseloss_sum losses.safetensors has no tensor", "linear_3d layers.safetensors has no tensor",
       "mlp_relu_sgd training.safetensors has no tensor",
       "steplr optim.safetensors has no tensor"});
  trials.red("entries dropped from a case", "f16",
             [](const Copy& copy) {
               copy.edit_list("activations", [](Json& cases) {
                 case_of(cases, "elu_20").at("grads").clear();
                 case_of(cases, "elu_21").erase("args");
               });
               copy.edit_list("layers", [](Json& cases) {
                 Json& grads = case_of(cases, "linear_3d").at("grads");
                 grads.erase(grads.size() - 1);
               });
             },
             {"elu_20 activations.safetensors holds elu_20/dydx", "elu_21 its entry",
              "linear_3d layers.safetensors holds linear_3d/"});
  trials.red("a case listed twice", "f64",
             [](const Copy& copy) {
               copy.edit_list("optim",
                              [](Json& cases) { cases.push_back(case_of(cases, "sgd_0")); });
             },
             {"sgd_0 the list has this id twice"});
  trials.red("an argument that nobody knows", "f64",
             [](const Copy& copy) {
               copy.edit_list("optim",
                              [](Json& c) { case_of(c, "sgd_0")["args"]["maximize"] = true; });
             },
             {"sgd_0 nothing is known of the argument maximize"});
  trials.red("files gone or cut", "f32",
             [](const Copy& copy) {
               fs::remove(copy.path() / "losses.json");
               fs::resize_file(copy.path() / "optim.json", 100);
             },
             {"losses: there is a losses.safetensors", "optim: optim.json is not valid"});
}

// Nothing compared is nothing passed.
void nothing_compared(Trials& trials) {
  trials.red("no input that the type holds", "f16",
             [](const Copy& copy) {
               copy.edit_tensors("activations", [](Tensors& t) { t.at("selu_12/x").fill(0.1); });
             },
             {"selu_12 y: there is not one value to compare"});
  {
    const Copy copy(trials.data());
    copy.edit_list("layers", [](Json& cases) { case_of(cases, "linear_3d")["op"] = "Bilinear"; });
    const Outcome before = trials.run(trials.data(), "f32"), after = trials.run(copy.path(), "f32");
    trials.demand(after.status == 0 && after.passed + 1 == before.passed &&
                      after.skipped == before.skipped + 1 &&
                      after.says("\nskipped linear_3d: no Bilinear yet\n"),
                  "an op that does not exist is to be skipped", after);
  }
  {
    const Copy copy(trials.data());
    for (const char* group : {"activations", "layers", "optim", "training"}) {
      fs::remove(copy.path() / (std::string(group) + ".json"));
      fs::remove(copy.path() / (std::string(group) + ".safetensors"));
    }
    copy.edit_list("losses", [](Json& cases) {
      for (Json& entry : cases) {
        entry["op"] = "HingeLoss";
      }
    });
    const Outcome outcome = trials.run(copy.path(), "f32");
    trials.demand(outcome.status == 1 && outcome.has_totals && outcome.failed == 0 &&
                      outcome.says("\nfailed: nothing passed\n"),
                  "cases that are all skipped are not to be green", outcome);
  }
  const structure::TemporaryFolder empty;
  const Outcome outcome = trials.run(empty.path(), "f32");
  trials.demand(outcome.status == 2, "an empty folder is to be an error", outcome);
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: golden_check_finds_faults CHECKER DATA" << std::endl;
    return 2;
  }
  try {
    golden::Trials trials(argv[1], argv[2]);
    golden::untouched(trials);
    golden::wrong_activations(trials);
    golden::wrong_values(trials);
    golden::wrong_formulas(trials);
    golden::dropped_cases(trials);
    golden::nothing_compared(trials);
    return trials.conclude();
  } catch (const std::exception& error) {
    std::cerr << "golden_check_finds_faults: " << error.what() << std::endl;
    return 2;
  }
}
