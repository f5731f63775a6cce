// The other passes over memory: bias, its gradient, the loss of a row, bytes to numbers, updates.
#include <sinter/kernels/cpu/isa/lanes.h>
#include <sinter/kernels/cpu/isa/path.h>
#include <sinter/kernels/math/functions.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

// Everything is loaded before anything is stored: the compiler, which cannot know that the arrays
// are apart, would load again what it has just stored, and wait for it.
template <class T>
void sgd(const math::SgdConstants<double>& args, T* p, const T* g, T* momentum, std::int64_t n) {
  using V = Lanes<T>;
  for_lanes<V>(n, [&](std::int64_t i, auto how) {
    V parameter = load<V>(p + i, how);
    const V gradient = load<V>(g + i, how);
    if (momentum == nullptr) {
      math::sgd_step(parameter, gradient, args);
    } else {
      V velocity = load<V>(momentum + i, how);
      math::sgd_step(parameter, gradient, velocity, args);
      store(momentum + i, velocity, how);
    }
    store(p + i, parameter, how);
  });
}

template <class T>
void adam(const math::AdamConstants<double>& args, T* p, const T* g, T* m, T* v, std::int64_t n) {
  using V = Lanes<T>;
  for_lanes<V>(n, [&](std::int64_t i, auto how) {
    V parameter = load<V>(p + i, how), mean = load<V>(m + i, how), square = load<V>(v + i, how);
    math::adam_step(parameter, load<V>(g + i, how), mean, square, args);
    store(p + i, parameter, how);
    store(m + i, mean, how);
    store(v + i, square, how);
  });
}

template <class T>
void add_bias(const T* bias, T* y, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    y[j] += bias[j];
  }
}

template <class T>
void add_rows(const T* x, std::int64_t rows, std::int64_t n, std::int64_t ld, T* y) {
  using V = Lanes<T>;
  for_lanes<V>(n, [&](std::int64_t j, auto how) {
    V sum = load<V>(y + j, how);
    for (std::int64_t row = 0; row < rows; ++row) {
      sum += load<V>(x + row * ld + j, how);
    }
    store(y + j, sum, how);
  });
}

// e^(x - shift) to 2^-32, kept in float64 for the sums that follow. The last vector overlaps the
// one before it, which costs less than a part of one.
void exponentials(const float* x, double shift, double* y, std::int64_t n) {
  constexpr std::int64_t step = math::lanes<simd::Doubles>;
  const simd::Doubles offset = math::splat<simd::Doubles>(shift);
  const auto some = [&](std::int64_t j, auto how) {
    const simd::Doubles wide = simd::widen(load<simd::HalfFloats>(x + j, how));
    store(y + j, math::exp(wide - offset), how);
  };
  if (n < step) {
    some(0, First{n});
    return;
  }
  for (std::int64_t j = 0; j + step < n; j += step) {
    some(j, All{});
  }
  some(n - step, All{});
}
void exponentials(const double* x, double shift, double* y, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    y[j] = math::exp(x[j] - shift);
  }
}

// With log-probabilities l, probabilities p, label t, class weights w and smoothing s over C
// classes: loss = (1 - s) w_t (-l_t) + s / C * sum_c w_c (-l_c), as torch defines it (Szegedy et
// al., "Rethinking the inception architecture", 2016, for the smoothing).
template <class T>
double cross_entropy_row(const CrossEntropyRow<T>& args, const T* logits, std::int64_t label,
                         double grad_scale, T* grad, double* room) {
  const std::int64_t classes = args.classes;
  // Without branches that depend on numbers: no processor guesses those of a network in training.
  T most = logits[0];
  for (std::int64_t j = 1; j < classes; ++j) {
    most = math::max(logits[j], most);
  }
  std::int64_t top = 0;
  for (std::int64_t j = classes; j-- > 0;) {
    top = logits[j] == most ? j : top;
  }
  const auto largest = static_cast<double>(most);
  exponentials(logits, largest, room, classes);
  const auto sum_without = [&](std::int64_t left_out) {
    const double kept = room[left_out];
    room[left_out] = 0;
    double sum = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      sum += room[j];
    }
    room[left_out] = kept;
    return sum;
  };
  // The largest adds exp(0) = 1, left to log1p: added here it would swallow the others, and the
  // loss of a network sure of its answer would lose its digits.
  const double rest = sum_without(top);
  const double log_sum = math::log1p(rest);
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
    // room[j] * per_exponential = (sharp + smooth * weights) * p_j * grad_scale
    const double inverse_sum = 1 / (1 + rest);
    const double per_exponential = (sharp + smooth * weights) * inverse_sum * grad_scale;
    const double per_weight = smooth * grad_scale;
    for (std::int64_t j = 0; j < classes; ++j) {
      grad[j] = static_cast<T>(room[j] * per_exponential - per_weight * weight(j));
    }
    // At the label the derivative has p - 1; summing the other probabilities gives 1 - p without
    // the cancellation that a network sure of its answer would bring.
    const double others = sum_without(label) * inverse_sum;
    const double p = room[label] * inverse_sum;
    grad[label] =
        static_cast<T>((smooth * (p * weights - weight(label)) - sharp * others) * grad_scale);
  }
  return loss;
}

// Beside the center x - center cancels, so it is subtracted in two parts, of which the first leaves
// no rounding error; the scale's second part makes up for the rounding of its first.
void normalise(const std::uint8_t* x, double center, double scale, float* y, std::int64_t n) {
  using V = simd::Floats;
  // Far from all bytes nothing cancels.
  const bool among_bytes = center > -65536 && center < 65536;
  const double coarse =
      among_bytes ? static_cast<double>(static_cast<std::int64_t>(center * 65536)) / 65536 : center;
  const V center_high = math::splat<V>(coarse);
  const V center_low = math::splat<V>(center - static_cast<double>(center_high[0]));
  const V scale_high = math::splat<V>(scale);
  const V scale_low = math::splat<V>(scale - static_cast<double>(scale_high[0]));
  for_lanes<V>(n, [&](std::int64_t i, auto how) {
    const V whole = simd::to_floats(load<simd::Bytes>(x + i, how));
    const V distance = (whole - center_high) - center_low;
    store(y + i, distance * scale_high + distance * scale_low, how);
  });
}
void normalise(const std::uint8_t* x, double center, double scale, double* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = (static_cast<double>(static_cast<int>(x[i])) - center) * scale;
  }
}

template <class T, class F>
SINTER_HOST_INLINE void map(const T* x, T* y, std::int64_t n, F f) {
  using V = Lanes<T>;
  for_lanes<V>(n, [&](std::int64_t i, auto how) { store(y + i, f(load<V>(x + i, how)), how); });
}

}  // namespace

template <class T>
void set_passes(Kernels<T>& table) {
  table.add_bias = add_bias<T>;
  table.add_rows = add_rows<T>;
  table.cross_entropy_row = cross_entropy_row<T>;
  table.normalise = normalise;
  table.sgd = sgd<T>;
  table.adam = adam<T>;
#define SINTER_FUNCTION(name)                           \
  table.name = [](const T* x, T* y, std::int64_t n) {   \
    map(x, y, n, [](auto v) { return math::name(v); }); \
  };
  SINTER_FUNCTION(exp)
  SINTER_FUNCTION(log)
  SINTER_FUNCTION(expm1)
  SINTER_FUNCTION(log1p)
  SINTER_FUNCTION(tanh)
  SINTER_FUNCTION(erf)
#undef SINTER_FUNCTION
}

template void set_passes(Kernels<float>& table);
template void set_passes(Kernels<double>& table);

}  // namespace sinter::cpu::SINTER_CPU_PATH
