// Which layers' gradients are computed together.
#include <algorithm>
#include <vector>

#include <sinter/kernels/cuda/tile/gradients.h>
#include <sinter/kernels/cuda/tile/limits.h>
#include <sinter/kernels/cuda/tile/tile.h>
#include <sinter/kernels/cuda/updates.h>
#include <sinter/runtime/error.h>

namespace sinter::cuda::tile {
namespace {

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.address() == b.address();
}

// A parameter that two layers share is written by both: one after the other.
bool writes_to(const GradientLayer& layer, const Tensor& tensor) {
  return same_memory(layer.weight.data, tensor) || same_memory(layer.bias.data, tensor);
}

void launch_all(const std::vector<GradientLayer>& layers, const Updates& updates) {
  const std::span<const GradientLayer> all(layers);
  std::size_t begin = 0;
  for (std::size_t end = 0; end <= all.size(); ++end) {
    const auto group = all.subspan(begin, end - begin);
    const bool ends =
        end == all.size() || group.size() == most_layers ||
        std::ranges::any_of(group, [&](const GradientLayer& other) {
          return writes_to(other, all[end].weight.data) || writes_to(other, all[end].bias.data);
        });
    if (ends && !group.empty()) {
      launch_gradients(group.front().dy.device().index, group, updates);
      begin = end;
    }
  }
}

template <class RuleOf>
void update(const std::vector<UpdatedLinear>& linears, const Updates& updates, RuleOf rule_of) {
  std::vector<GradientLayer> layers;
  for (const UpdatedLinear& linear : linears) {
    GradientLayer layer{.dy = linear.dy, .x = linear.x};
    const auto set = [&](GradientTensors& target, const Tensor& parameter, const Tensor& first,
                         const Tensor& second) {
      target.rule = rule_of(first);
      target.data = parameter;
      target.state[0] = first;
      target.state[1] = second;
    };
    set(layer.weight, linear.weight, linear.weight_state[0], linear.weight_state[1]);
    set(layer.bias, linear.bias, linear.bias_state[0], linear.bias_state[1]);
    check(std::ranges::none_of(layers,
                               [&](const GradientLayer& other) {
                                 return writes_to(other, layer.weight.data) ||
                                        writes_to(other, layer.bias.data);
                               }),
          "update: a parameter is in two Linears, whose gradients have to be added up first");
    layers.push_back(std::move(layer));
  }
  launch_all(layers, updates);
}

}  // namespace

void weight_gradients(Ins dy, Ins x, InOuts dw, InOuts db,
                      const std::vector<ops::WeightGradientFlags>& flags, std::size_t begin,
                      std::size_t end) {
  std::vector<GradientLayer> layers;
  for (std::size_t i = begin; i < end; ++i) {
    if (dw[i].defined() || db[i].defined()) {
      const auto rule = [](bool adds) { return adds ? Rule::accumulate : Rule::write; };
      layers.push_back({.dy = dy[i],
                        .x = x[i],
                        .weight = {rule(flags[i].accumulate_weight), dw[i], {}},
                        .bias = {rule(flags[i].accumulate_bias), db[i], {}}});
    }
  }
  launch_all(layers, {});
}

void update_linears(const std::vector<UpdatedLinear>& linears, const ops::SgdArgs& args) {
  update(linears, {.sgd = update_of(args)},
         [](const Tensor& velocity) { return velocity.defined() ? Rule::momentum : Rule::sgd; });
}

void update_linears(const std::vector<UpdatedLinear>& linears, const ops::AdamArgs& args) {
  update(linears, {.adam = update_of(args)}, [](const Tensor&) { return Rule::adam; });
}

}  // namespace sinter::cuda::tile
