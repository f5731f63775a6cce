// Parameter updates over flat buffers.
#include <algorithm>
#include <cmath>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/sums.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/kernels/one_by_one.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// An update is bound by memory, and what it touches is in the cache of the core that wrote the
// gradients: a second thread has to bring over more than it saves in a small one.
constexpr std::int64_t update_grain = 4 * parallel_grain;

}  // namespace

void sgd_update(InOut p, In g, InOut momentum, const ops::SgdArgs& args) {
  with_floating("sgd", p->dtype(), [&]<class T>(T) {
    parallel_shares(p->numel(), update_grain, [&](std::int64_t begin, std::int64_t end) {
      T* velocity = momentum->defined() ? momentum->raw<T>() + begin : nullptr;
      kernels<T>().sgd(args.constants, p->raw<T>() + begin, g->raw<T>() + begin, velocity,
                       end - begin);
    });
  });
}

void adam_update(InOut p, In g, InOut m, InOut v, const ops::AdamArgs& args) {
  with_floating("adam", p->dtype(), [&]<class T>(T) {
    parallel_shares(p->numel(), update_grain, [&](std::int64_t begin, std::int64_t end) {
      kernels<T>().adam(args.constants, p->raw<T>() + begin, g->raw<T>() + begin,
                        m->raw<T>() + begin, v->raw<T>() + begin, end - begin);
    });
  });
}

void linears_sgd_update(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                        InOuts bias_state, const ops::SgdArgs& args) {
  update_one_by_one(dy, x, weights, biases, weight_state, bias_state, weight_gradients, sgd_update,
                    args);
}

void linears_adam_update(Ins dy, Ins x, InOuts weights, InOuts biases, InOuts weight_state,
                         InOuts bias_state, const ops::AdamArgs& args) {
  update_one_by_one(dy, x, weights, biases, weight_state, bias_state, weight_gradients, adam_update,
                    args);
}

void rule_update(InOut p, In g, InOuts state, const ops::RuleArgs& args) {
  const auto update = [&]<class T, class Rule>(T, const Rule& rule) {
    parallel_shares(p->numel(), update_grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        T of_element[Rule::states];
        for (std::size_t k = 0; k < Rule::states; ++k) {
          of_element[k] = state[k].template raw<T>()[i];
        }
        rule(p->raw<T>()[i], g->raw<T>()[i], of_element);
        for (std::size_t k = 0; k < Rule::states; ++k) {
          state[k].template raw<T>()[i] = of_element[k];
        }
      }
    });
  };
  with_floating("rule_update", p->dtype(), [&]<class T>(T type) {
    std::visit([&](const auto& rule) { update(type, rule); }, args.rule);
  });
}

void clip_norm(InOuts tensors, In scale, Out norm, Out found, double max_norm) {
  double squares = 0;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    with_floating("clip_norm", tensors[k].dtype(), [&]<class T>(T) {
      squares += sum_of_terms(tensors[k].numel(), [x = tensors[k].raw<T>()](std::int64_t i) {
        return static_cast<double>(x[i]) * static_cast<double>(x[i]);
      });
    });
  }
  const double unscale = scale->defined() ? 1.0 / static_cast<double>(*scale->raw<float>()) : 1.0;
  const double length = std::sqrt(squares) * unscale;
  with_floating("clip_norm", norm->dtype(),
                [&]<class T>(T) { norm->raw<T>()[0] = static_cast<T>(length); });
  if (found->defined()) {
    *found->raw<std::int32_t>() = std::isfinite(length) ? 0 : 1;
  }
  const double factor = math::clip_factor(length, max_norm) * unscale;
  if (factor == 1) {
    return;
  }
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    with_floating("clip_norm", tensors[k].dtype(), [&]<class T>(T) {
      T* const x = tensors[k].raw<T>();
      parallel_shares(tensors[k].numel(), update_grain, [&](std::int64_t begin, std::int64_t end) {
        // Zeros stay, for some are padding, and a norm may be NaN.
        std::for_each(x + begin, x + end, [factor](T& value) {
          value = value == 0 ? value : value * static_cast<T>(factor);
        });
      });
    });
  }
}

void clip_value(InOuts tensors, double limit) {
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    with_floating("clip_value", tensors[k].dtype(), [&]<class T>(T) {
      T* const x = tensors[k].raw<T>();
      const T most = static_cast<T>(limit);
      parallel_shares(tensors[k].numel(), update_grain, [&](std::int64_t begin, std::int64_t end) {
        // std::clamp gives back a NaN, as it compares with nothing.
        std::for_each(x + begin, x + end,
                      [most](T& value) { value = std::clamp(value, -most, most); });
      });
    });
  }
}

void scale_update(InOut scale, InOut clean, InOut skipped, In found,
                  const ops::ScaleUpdateArgs& args) {
  math::update_scale(*scale->raw<float>(), *clean->raw<std::int64_t>(),
                     *skipped->raw<std::int64_t>(), *found->raw<std::int32_t>() != 0,
                     args.growth_factor, args.backoff_factor, args.growth_interval);
}

}  // namespace sinter::cpu
