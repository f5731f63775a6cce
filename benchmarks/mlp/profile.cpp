#include "profile.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../median.h"
#include "table.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace bench {
namespace {

constexpr int warm_up_steps = 20;
constexpr int timed_steps = 200;

struct Pass {
  std::string name;
  std::int64_t elements;  // 0 for a matrix product
  double flops;
  std::function<void()> run;
  std::vector<double> us = {};
};

Tensor floats(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] = static_cast<float>((i * 7919) % 2001 - 1000) * 1e-5f;
  }
  return tensor;
}

/// What autograd and the layers do in a step, without them: the same ops on the same shapes, all
/// parameters in one buffer as in a model.
class Step {
 public:
  explicit Step(const Recipe& recipe) : recipe_(recipe), data_(datasets::mnist(recipe.data).train) {
    std::int64_t length = 0;
    for (std::size_t i = 0; i + 1 < recipe.sizes.size(); ++i) {
      length += padded(recipe.sizes[i] * recipe.sizes[i + 1]) + padded(recipe.sizes[i + 1]);
    }
    values_ = floats({length});
    gradients_ = floats({length});
    state_ = {Tensor::zeros({length}), Tensor::zeros({length})};
    indices_ = Tensor::empty({recipe.batch}, DType::int64);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i + 1 < recipe.sizes.size(); ++i) {
      offset = add_layer(recipe.sizes[i], recipe.sizes[i + 1], offset, i + 2 < recipe.sizes.size());
    }
    list_passes();
  }

  std::vector<Pass>& passes() { return passes_; }

  /// Every step of an epoch has other images.
  void choose_batch(std::int64_t step) {
    for (std::int64_t i = 0; i < recipe_.batch; ++i) {
      indices_.data<std::int64_t>()[i] = ((step * recipe_.batch + i) * 40503 + 17) % data_.size();
    }
  }

 private:
  struct Layer {
    Tensor x, weight, bias, weight_gradient, bias_gradient;
    Tensor z, y, dy, dz;  // z only where the derivative needs it; without activation dz is dy
    ops::ActivationArgs args;
  };

  static std::int64_t padded(std::int64_t n) { return (n + 63) / 64 * 64; }

  std::int64_t add_layer(std::int64_t in, std::int64_t out, std::int64_t offset, bool has_act) {
    const std::int64_t rows = recipe_.batch;
    Layer layer;
    layer.x = layers_.empty() ? floats({rows, in}) : layers_.back().y;
    layer.weight = values_.slice(offset, {out, in});
    layer.weight_gradient = gradients_.slice(offset, {out, in});
    offset += padded(in * out);
    layer.bias = values_.slice(offset, {out});
    layer.bias_gradient = gradients_.slice(offset, {out});
    layer.y = floats({rows, out});
    layer.dy = floats({rows, out});
    layer.dz = layer.dy;
    if (has_act) {
      layer.dz = floats({rows, out});
      layer.args.act = recipe_.activation == "gelu" ? math::AnyActivation(math::GELU{})
                                                    : math::AnyActivation(math::ReLU{});
      layer.args.dropout.mask =
          math::dropout_mask(recipe_.drop, 7, static_cast<std::uint32_t>(layers_.size()), 0);
      const bool needs_input = std::visit(
          []<class A>(const A&) { return math::derives_from_input<A>; }, *layer.args.act);
      layer.z = needs_input ? floats({rows, out}) : Tensor{};
    }
    layers_.push_back(layer);
    return offset + padded(out);
  }

  void add(std::string name, std::int64_t elements, double flops, std::function<void()> run) {
    passes_.push_back({std::move(name), elements, flops, std::move(run)});
  }

  void list_passes() {
    add("gather + normalise", layers_[0].x.numel(), 0, [this] {
      ops::gather_normalise(data_.images(), indices_, layers_[0].x, ops::NormaliseArgs{});
    });
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      add(text("forward ", i + 1), 0, flops_of(layers_[i]), [&layer = layers_[i]] {
        ops::linear_forward(layer.x, layer.weight, layer.bias, layer.z, layer.y, layer.args);
      });
    }
    add("cross entropy", layers_.back().y.numel(), 0, [this] {
      ops::gather_rows(data_.labels(), indices_, labels_);
      ops::cross_entropy(layers_.back().y, labels_, Tensor{}, loss_, layers_.back().dy, {});
    });
    for (std::size_t i = layers_.size(); i-- > 0;) {
      Layer& layer = layers_[i];
      if (layer.args.act) {
        add(text("activation', bias ", i + 1), layer.y.numel(), 0, [&layer] {
          ops::activation_backward_bias(layer.z.defined() ? layer.z : layer.y, layer.dy, layer.dz,
                                        layer.bias_gradient, layer.args, false);
        });
      } else {
        add(text("bias gradient ", i + 1), layer.y.numel(), 0,
            [&layer] { ops::sum_to(layer.dz, layer.bias_gradient, false); });
      }
      if (i > 0) {
        add(text("dX ", i + 1), 0, flops_of(layer), [&layer, &below = layers_[i - 1]] {
          ops::matmul(layer.dz, layer.weight, below.dy, {});
        });
      }
      add(text("dW ", i + 1), 0, flops_of(layer), [&layer] {
        ops::matmul(layer.dz, layer.x, layer.weight_gradient, {.transpose_a = true});
      });
    }
    add("update", values_.numel(), 0, [this] { update(); });
  }

  double flops_of(const Layer& layer) const {
    return 2.0 * static_cast<double>(recipe_.batch) * static_cast<double>(layer.weight.numel());
  }

  void update() {
    if (recipe_.optimizer == "adam") {
      ops::adam_update(values_, gradients_, state_[0], state_[1],
                       math::adam_constants<double>({.lr = recipe_.lr}, 0.5, 0.5));
    } else {
      ops::sgd_update(
          values_, gradients_, state_[0],
          math::sgd_constants<double>({.lr = recipe_.lr, .momentum = recipe_.momentum}, false));
    }
  }

  Recipe recipe_;
  InMemoryDataset data_;
  Tensor values_, gradients_;
  std::vector<Tensor> state_;
  Tensor indices_;
  Tensor labels_ = Tensor::empty({recipe_.batch}, DType::int64);
  Tensor loss_ = Tensor::empty({});
  std::vector<Layer> layers_;
  std::vector<Pass> passes_;
};

double microseconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

void print_profile(const Task& task, double whole_us) {
  set_num_threads(task.recipe.threads);
  Step step(task.recipe);
  for (int i = 0; i < warm_up_steps + timed_steps; ++i) {
    step.choose_batch(i);
    for (Pass& pass : step.passes()) {
      const double us = microseconds(pass.run);
      if (i >= warm_up_steps) {
        pass.us.push_back(us);
      }
    }
  }
  std::printf("\n%s, %d thread%s: medians of %d steps\n", task.name.c_str(), task.recipe.threads,
              task.recipe.threads == 1 ? "" : "s", timed_steps);
  std::printf("  %-20s %9s %7s\n", "", "us", "share");
  double sum = 0;
  const auto line = [whole_us](const std::string& name, double us, const std::string& rate) {
    std::printf("  %-20s %9.1f %6.1f%%  %s\n", name.c_str(), us, 100 * us / whole_us, rate.c_str());
  };
  for (const Pass& pass : step.passes()) {
    const double us = median(pass.us);
    char rate[32];
    if (pass.flops > 0) {
      std::snprintf(rate, sizeof(rate), "%.0f GFLOP/s", pass.flops / us / 1e3);
    } else {
      std::snprintf(rate, sizeof(rate), "%.2f ns an element",
                    1e3 * us / static_cast<double>(pass.elements));
    }
    line(pass.name, us, rate);
    sum += us;
  }
  line("all ops", sum, "");
  line("the rest", whole_us - sum, "tape, memory, loop");
  line("the whole step", whole_us, "in a run of its own");
}

}  // namespace bench
