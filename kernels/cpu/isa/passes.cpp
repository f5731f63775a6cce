// The other passes over memory: bias, its gradient, the loss of a row, bytes to numbers, updates.
#include <cmath>

#include <sinter/kernels/cpu/isa/path.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

template <class T>
void sgd(const math::SgdConstants<double>& args, T* p, const T* g, T* momentum, std::int64_t n) {
  if (momentum == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      math::sgd_step(p[i], g[i], args);
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    math::sgd_step(p[i], g[i], momentum[i], args);
  }
}

template <class T>
void adam(const math::AdamConstants<double>& args, T* p, const T* g, T* m, T* v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    math::adam_step(p[i], g[i], m[i], v[i], args);
  }
}

template <class T>
void add_bias(const T* bias, T* y, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    y[j] += bias[j];
  }
}

// Rows are added in groups, and the groups' sums to each other: the rounding error grows with the
// number of groups and the size of one, not with the number of rows.
template <class T>
void column_sum(const T* x, std::int64_t rows, std::int64_t n, std::int64_t ld, bool accumulate,
                T* y) {
  constexpr std::int64_t group = 32;
  constexpr std::int64_t width = 256;
  for (std::int64_t left = 0; left < n; left += width) {
    const std::int64_t count = n - left < width ? n - left : width;
    T total[width] = {};
    for (std::int64_t top = 0; top < rows; top += group) {
      const std::int64_t bottom = rows - top < group ? rows : top + group;
      T partial[width] = {};
      for (std::int64_t row = top; row < bottom; ++row) {
        const T* in = x + row * ld + left;
        for (std::int64_t j = 0; j < count; ++j) {
          partial[j] += in[j];
        }
      }
      for (std::int64_t j = 0; j < count; ++j) {
        total[j] += partial[j];
      }
    }
    for (std::int64_t j = 0; j < count; ++j) {
      y[left + j] = accumulate ? y[left + j] + total[j] : total[j];
    }
  }
}

// With log-probabilities l, probabilities p, label t, class weights w and smoothing s over C
// classes: loss = (1 - s) w_t (-l_t) + s / C * sum_c w_c (-l_c), as torch defines it (Szegedy et
// al., "Rethinking the inception architecture", 2016, for the smoothing).
template <class T>
double cross_entropy_row(const CrossEntropyRow<T>& args, const T* logits, std::int64_t label,
                         double grad_scale, T* grad) {
  const std::int64_t classes = args.classes;
  std::int64_t top = 0;
  for (std::int64_t j = 1; j < classes; ++j) {
    top = logits[j] > logits[top] ? j : top;
  }
  const double largest = static_cast<double>(logits[top]);
  // The largest adds exp(0) = 1, left to log1p: added here it would swallow the others, and the
  // loss of a network sure of its answer would lose its digits.
  double rest = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    rest += j == top ? 0.0 : std::exp(static_cast<double>(logits[j]) - largest);
  }
  const double log_sum = std::log1p(rest);
  const auto weight = [&args](std::int64_t j) {
    return args.class_weights == nullptr ? 1.0 : static_cast<double>(args.class_weights[j]);
  };
  const auto minus_log_p = [&](std::int64_t j) {
    return log_sum - (static_cast<double>(logits[j]) - largest);
  };
  const double sharp = (1 - args.label_smoothing) * weight(label);
  const double smooth = args.label_smoothing / static_cast<double>(classes);
  double loss = sharp * minus_log_p(label);
  double weights = 0;
  if (smooth != 0) {
    for (std::int64_t j = 0; j < classes; ++j) {
      loss += smooth * weight(j) * minus_log_p(j);
      weights += weight(j);
    }
  }
  if (grad != nullptr) {
    const auto smooth_part = [&](std::int64_t j, double p) {
      return smooth == 0 ? 0.0 : smooth * (p * weights - weight(j));
    };
    // At the label the derivative is p - 1; summing the other probabilities gives 1 - p without
    // the cancellation that a network sure of its answer would bring.
    double others = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      if (j != label) {
        const double p = std::exp(-minus_log_p(j));
        others += p;
        grad[j] = static_cast<T>((sharp * p + smooth_part(j, p)) * grad_scale);
      }
    }
    const double p = std::exp(-minus_log_p(label));
    grad[label] = static_cast<T>((smooth_part(label, p) - sharp * others) * grad_scale);
  }
  return loss;
}

template <class T>
void normalise(const std::uint8_t* x, double scale, double shift, T* y, std::int64_t n) {
  // In float64, since beside the mean the two terms cancel.
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<T>(static_cast<double>(static_cast<int>(x[i])) * scale + shift);
  }
}

}  // namespace

template <class T>
void set_passes(Kernels<T>& table) {
  table.add_bias = add_bias<T>;
  table.column_sum = column_sum<T>;
  table.cross_entropy_row = cross_entropy_row<T>;
  table.normalise = normalise<T>;
  table.sgd = sgd<T>;
  table.adam = adam<T>;
}

template void set_passes(Kernels<float>& table);
template void set_passes(Kernels<double>& table);

}  // namespace sinter::cpu::SINTER_CPU_PATH
