// Parameter updates on CUDA tensors.
#include <type_traits>
#include <variant>
#include <vector>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/tile/tile.h>
#include <sinter/kernels/cuda/types.h>
#include <sinter/kernels/cuda/updates.h>
#include <sinter/kernels/one_by_one.h>

namespace sinter::cuda {

void sgd_update(InOut p, In g, InOut momentum, const ops::SgdArgs& args) {
  with_storage("sgd", p->dtype(), [&]<class T>(T) {
    sgd_update(p->device().index, p->raw<T>(), g->raw<T>(),
               momentum->defined() ? momentum->raw<T>() : nullptr, p->numel(), update_of(args));
  });
}

void adam_update(InOut p, In g, InOut m, InOut v, const ops::AdamArgs& args) {
  with_storage("adam", p->dtype(), [&]<class T>(T) {
    adam_update(p->device().index, p->raw<T>(), g->raw<T>(), m->raw<T>(), v->raw<T>(), p->numel(),
                update_of(args));
  });
}

void rule_update(InOut p, In g, InOuts state, const ops::RuleArgs& args) {
  std::visit(
      [&](const auto& rule) {
        const auto update = update_of(ops::UpdateArgs(rule, args.live, args.skip));
        using Rule = std::remove_cvref_t<decltype(update.constants)>;
        with_storage("rule_update", p->dtype(), [&]<class T>(T) {
          T* of_rule[Rule::states];
          for (std::size_t k = 0; k < Rule::states; ++k) {
            of_rule[k] = state[k].template raw<T>();
          }
          rule_update<T, Rule>(p->device().index, p->raw<T>(), g->raw<T>(), of_rule, p->numel(),
                               update);
        });
      },
      args.rule);
}

void clip_norm(InOuts tensors, In scale, Out norm, Out found, double max_norm) {
  const Tensor squares = Tensor::zeros({}, DType::float64, norm->device());
  const Tensor factor = Tensor::empty({}, DType::float32, norm->device());
  const Clipping clipping{squares.raw<double>(),      factor.raw<float>(),
                          norm->raw<float>(),         max_norm,
                          raw_or_null<float>(*scale), raw_or_null<std::int32_t>(*found)};
  const int device = norm->device().index;
  const auto for_each = [&](auto use) {
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      with_storage("clip_norm", tensors[k].dtype(),
                   [&]<class T>(T) { use(tensors[k].raw<T>(), tensors[k].numel(), k); });
    }
  };
  for_each([&](const auto* x, std::int64_t n, std::size_t k) {
    add_squares(device, x, n, clipping, k + 1 == tensors.size());
  });
  for_each(
      [&](auto* x, std::int64_t n, std::size_t) { scale_by(device, x, n, factor.raw<float>()); });
}

void clip_value(InOuts tensors, double limit) {
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    with_storage("clip_value", tensors[k].dtype(), [&]<class T>(T) {
      clip_value(tensors[k].device().index, tensors[k].raw<T>(), tensors[k].numel(),
                 static_cast<float>(limit));
    });
  }
}

void scale_update(InOut scale, InOut clean, InOut skipped, In found,
                  const ops::ScaleUpdateArgs& args) {
  scale_update(scale->device().index, scale->raw<float>(), clean->raw<std::int64_t>(),
               skipped->raw<std::int64_t>(), found->raw<std::int32_t>(), args);
}

namespace {

// In one kernel where it has one for all of them.
template <class Update, class Args>
void update_linears(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                    InOuts bias_state, Update update, const Args& args) {
  std::vector<tile::UpdatedLinear> linears;
  const std::size_t states = dy.size() == 0 ? 0 : weight_state.size() / dy.size();
  for (std::size_t i = 0; i < dy.size(); ++i) {
    if (!tile::takes(dy[i], dy[i].shape().rows(), weights[i].size(1), weights[i].size(0))) {
      return update_one_by_one(dy, x, weights, biases, weight_state, bias_state, weight_gradients,
                               update, args);
    }
    tile::UpdatedLinear linear{dy[i], x[i], weights[i], biases[i], {}, {}};
    for (std::size_t k = 0; k < states; ++k) {
      linear.weight_state[k] = weight_state[states * i + k];
      linear.bias_state[k] = bias_state[states * i + k];
    }
    linears.push_back(linear);
  }
  tile::update_linears(linears, args);
}

}  // namespace

void linears_sgd_update(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                        InOuts bias_state, const ops::SgdArgs& args) {
  const auto update = [](InOut p, In g, InOut momentum, const ops::SgdArgs& of) {
    sgd_update(p, g, momentum, of);
  };
  update_linears(dy, x, weights, biases, weight_state, bias_state, update, args);
}

void linears_adam_update(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                         InOuts bias_state, const ops::AdamArgs& args) {
  const auto update = [](InOut p, In g, InOut m, InOut v, const ops::AdamArgs& of) {
    adam_update(p, g, m, v, of);
  };
  update_linears(dy, x, weights, biases, weight_state, bias_state, update, args);
}

}  // namespace sinter::cuda
