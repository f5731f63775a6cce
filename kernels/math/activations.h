#pragma once

// The 21 activations, each defined once, with PyTorch's definitions and defaults. Adding one is a
// struct here and its line in the list at the end of this file, and nothing else anywhere.

#include <array>
#include <tuple>

#include <sinter/kernels/math/activation.h>
#include <sinter/kernels/math/coarse.h>
#include <sinter/kernels/math/fine.h>
#include <sinter/kernels/math/formulas.h>

namespace sinter::math {

struct Sigmoid : Parameterless {
  static constexpr Text name = "sigmoid", formula = "1 / (1 + exp(-x))";
  static constexpr std::array known{Known{0, 0.5}, Known{ln3, 0.75}};
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD V forward(V x) const {
    return logistic(x);
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    return select(y >= stored(splat<V>(1)), splat<V>(0), y * (splat<V>(1) - y));
  }
};

struct LogSigmoid : Parameterless {
  static constexpr Text name = "logsigmoid", formula = "-log(1 + exp(-x))";
  static constexpr std::array known{Known{0, -ln2}, Known{-ln3, -2 * ln2}};
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD V forward(V x) const {
    return min(x, splat<V>(0)) - log1p_exp_minus_abs(x);
  }
  template <class V>
  SINTER_HD V derivative_from_output(V y) const {
    return abs(expm1_of_negative(y));
  }
};

struct Tanh : Parameterless {
  static constexpr Text name = "tanh", formula = "tanh(x)";
  static constexpr std::array known{Known{0, 0}, Known{ln2, 0.6}};
  static constexpr bool wide = false;
  template <class V>
  SINTER_HD V forward(V x) const {
    return tanh(x);
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    const V one = splat<V>(1);  // 1 - y is exact beside 1, where 1 - y * y would cancel
    return select(abs(y) >= stored(one), splat<V>(0), (one - y) * (one + y));
  }
};

struct ReLU : Parameterless {
  static constexpr Text name = "relu", formula = "x if x > 0 else 0";
  static constexpr std::array known{Known{-2, 0}, Known{3, 3}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 1> kinks() const { return {0}; }
  template <class V>
  SINTER_HD V forward(V x) const {
    return select(x <= splat<V>(0), splat<V>(0), x);
  }
  template <class V>
  SINTER_HD V derivative_from_output(V y) const {
    return select(y <= splat<V>(0), splat<V>(0), unless_nan(y, splat<V>(1)));
  }
};

// Hendrycks & Gimpel, "Gaussian Error Linear Units", 2016.
struct GELU : Parameterless {
  static constexpr Text name = "gelu", formula = "x * Phi(x), Phi(x) = erfc(-x / sqrt(2)) / 2";
  static constexpr std::array known{Known{0, 0}, Known{1, 0.8413447460685429}};
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD V forward(V x) const {
    return max(x, splat<V>(0)) - times_normal_tail(size_within_tail(x));
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    const V left = normal_tail_slope(size_within_tail(x));
    return select(x < splat<V>(0), left, splat<V>(1) - left);
  }
};

struct GELUTanh : Parameterless {
  static constexpr Text name = "gelu_tanh",
                        formula = "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2";
  static constexpr std::array known{Known{0, 0}, Known{1, 0.8411919906082768}};
  static constexpr bool wide = true;
  // (1 + tanh(t)) / 2 is sigmoid(2t), which does not cancel on the left; 2t = x * (a + b * x^2).
  static constexpr double a = 1.5957691216057307117, b = 0.071354816272600248774;
  template <class V>
  SINTER_HD V forward(V x) const {
    return sigmoid_gate(max(x, splat<V>(-100)), cubic(clamp<V>(x, -100, 100), a, b));
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    const V z = clamp<V>(x, -100, 100);
    return sigmoid_gate_slope(cubic(z, a, b), cubic(z, a, 3 * b));
  }
};

struct SiLU : Parameterless {
  static constexpr Text name = "silu", formula = "x / (1 + exp(-x))";
  static constexpr std::array known{Known{0, 0}, Known{ln3, 0.8239592165010823}};
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD V forward(V x) const {
    return sigmoid_gate(max(x, splat<V>(-1000)), max(x, splat<V>(-1000)));
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    return sigmoid_gate_slope(clamp<V>(x, -1000, 1000), clamp<V>(x, -1000, 1000));
  }
};

struct ReLU6 : Parameterless {
  static constexpr Text name = "relu6", formula = "min(max(x, 0), 6)";
  static constexpr std::array known{Known{-2, 0}, Known{3, 3}, Known{8, 6}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 2> kinks() const { return {0, 6}; }
  template <class V>
  SINTER_HD V forward(V x) const {
    return min(select(x <= splat<V>(0), splat<V>(0), x), splat<V>(6));
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    return slope_between(y, splat<V>(0), stored(splat<V>(6)), splat<V>(1));
  }
};

struct Hardsigmoid : Parameterless {
  static constexpr Text name = "hardsigmoid", formula = "min(max(x / 6 + 1 / 2, 0), 1)";
  static constexpr std::array known{Known{0, 0.5}, Known{1.5, 0.75}, Known{-4, 0}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 2> kinks() const { return {-3, 3}; }
  // From the nearer end: x / 6 + 1/2 cancels beside -3, and beside 3 it rounds to the bound, where
  // a derivative taken from the output would be lost.
  template <class V>
  SINTER_HD V forward(V x) const {
    const V inside = max(splat<V>(3) - abs(x), splat<V>(0)) / splat<V>(6);
    return select(x < splat<V>(0), inside, splat<V>(1) - inside);
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    return slope_between(y, splat<V>(0), stored(splat<V>(1)), splat<V>(1.0 / 6));
  }
};

struct Hardtanh {
  double min_val = -1, max_val = 1;
  static constexpr Text name = "hardtanh", formula = "min(max(x, min_val), max_val)",
                        requirement = "min_val < max_val";
  static constexpr std::tuple fields{Field{"min_val", &Hardtanh::min_val},
                                     Field{"max_val", &Hardtanh::max_val}};
  static constexpr std::array known{Known{-2, -1}, Known{0.25, 0.25}, Known{3, 1}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 2> kinks() const { return {min_val, max_val}; }
  SINTER_HD constexpr bool valid() const {
    return min_val < max_val && finite(min_val) && finite(max_val);
  }
  template <class V>
  SINTER_HD V forward(V x) const {
    return clamp<V>(x, min_val, max_val);
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    return slope_between(y, stored(splat<V>(min_val)), stored(splat<V>(max_val)), splat<V>(1));
  }
};

struct Hardswish : Parameterless {
  static constexpr Text name = "hardswish", formula = "x * min(max(x + 3, 0), 6) / 6";
  static constexpr std::array known{Known{-1.5, -0.375}, Known{1.5, 1.125}, Known{4, 4}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 2> kinks() const { return {-3, 3}; }
  template <class V>
  SINTER_HD V forward(V x) const {
    const V right = select(x >= splat<V>(3), x, x * (x + splat<V>(3)) / splat<V>(6));
    return select(x <= splat<V>(-3), splat<V>(0), right);
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    const V inside = (x + x + splat<V>(3)) / splat<V>(6);
    return select(x <= splat<V>(-3), splat<V>(0), select(x >= splat<V>(3), splat<V>(1), inside));
  }
};

// Klambauer et al., "Self-Normalizing Neural Networks", 2017.
struct SELU : Parameterless {
  static constexpr Text name = "selu",
                        formula = "s * (x if x > 0 else a * (exp(x) - 1)), s = 1.0507, a = 1.6733";
  static constexpr std::array known{Known{2, 2.101401974710961}, Known{-ln2, -0.8790496704236883}};
  static constexpr bool wide = true;
  SINTER_HD constexpr std::array<double, 1> kinks() const { return {0}; }
  static constexpr double s = 1.0507009873554804934, sa = 1.7580993408473766;
  template <class V>
  SINTER_HD V forward(V x) const {
    return select(x > splat<V>(0), splat<V>(s) * x, splat<V>(sa) * expm1_of_negative(x));
  }
  // A y stored as the lower bound means exp(x) ~ 0, also where s * a is no value of that type.
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    const V left = select(y <= stored(splat<V>(-sa)), splat<V>(0), y + splat<V>(sa));
    return select(y > splat<V>(0), splat<V>(s), left);
  }
};

// Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.
struct Mish : Parameterless {
  static constexpr Text name = "mish", formula = "x * tanh(log(1 + exp(x)))";
  static constexpr std::array known{Known{0, 0}, Known{ln2, 0.5545177444479562}};
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD V forward(V x) const {
    return softplus_tanh_gate(max(x, splat<V>(-1000)));
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    return softplus_tanh_gate_slope(clamp<V>(x, -1000, 1000));
  }
};

struct Softplus {
  double beta = 1, threshold = 20;
  static constexpr Text name = "softplus",
                        formula = "log(1 + exp(beta * x)) / beta if beta * x <= threshold else x",
                        requirement = "beta > 0";
  static constexpr std::tuple fields{Field{"beta", &Softplus::beta},
                                     Field{"threshold", &Softplus::threshold}};
  static constexpr std::array known{Known{0, ln2}, Known{ln3, 2 * ln2}};
  static constexpr bool wide = true;
  SINTER_HD constexpr std::array<double, 1> kinks() const { return {threshold / beta}; }
  SINTER_HD constexpr bool valid() const { return beta > 0 && finite(beta) && finite(threshold); }
  template <class V>
  SINTER_HD V forward(V x) const {
    const V soft = max(x, splat<V>(0)) + log1p_exp_minus_abs(splat<V>(beta), x) / splat<V>(beta);
    return select(x > splat<V>(threshold) / splat<V>(beta), x, soft);
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    return select(x > splat<V>(threshold) / splat<V>(beta), splat<V>(1),
                  logistic(product(splat<V>(beta), x)));
  }
};

struct Softsign : Parameterless {
  static constexpr Text name = "softsign", formula = "x / (1 + |x|)";
  static constexpr std::array known{Known{1, 0.5}, Known{-3, -0.75}};
  static constexpr bool wide = false;
  template <class V>
  SINTER_HD V forward(V x) const {
    const V bounded = clamp<V>(x, -1e30, 1e30);
    return bounded / (splat<V>(1) + abs(bounded));
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    const V one = splat<V>(1), root = one - abs(y);
    return select(abs(y) >= stored(one), splat<V>(0), root * root);
  }
};

struct Tanhshrink : Parameterless {
  static constexpr Text name = "tanhshrink", formula = "x - tanh(x)";
  static constexpr std::array known{Known{0, 0}, Known{ln2, 0.09314718055994529}};
  static constexpr bool wide = true;
  template <class V>
  SINTER_HD V forward(V x) const {
    return minus_tanh(x);
  }
  template <class V>
  SINTER_HD V derivative_from_input(V x) const {
    const V root = tanh(x);
    return root * root;
  }
};

struct LeakyReLU {
  double negative_slope = 0.01;
  static constexpr Text name = "leaky_relu", formula = "x if x > 0 else negative_slope * x",
                        requirement = "negative_slope >= 0";
  static constexpr std::tuple fields{Field{"negative_slope", &LeakyReLU::negative_slope}};
  static constexpr std::array known{Known{-2, -0.02}, Known{3, 3}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 1> kinks() const { return {0}; }
  SINTER_HD constexpr bool valid() const { return negative_slope >= 0 && finite(negative_slope); }
  template <class V>
  SINTER_HD V forward(V x) const {
    const V zero = splat<V>(0), slope = splat<V>(negative_slope);  // 0 * -inf is NaN
    return select(x > zero, x, select(slope == zero, unless_nan(x, zero), slope * x));
  }
  template <class V>
  SINTER_HD V derivative_from_output(V y) const {
    return select(y > splat<V>(0), splat<V>(1), unless_nan(y, splat<V>(negative_slope)));
  }
};

// Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2015.
struct ELU {
  double alpha = 1;
  static constexpr Text name = "elu", formula = "x if x > 0 else alpha * (exp(x) - 1)",
                        requirement = "alpha >= 0";
  static constexpr std::tuple fields{Field{"alpha", &ELU::alpha}};
  static constexpr std::array known{Known{2, 2}, Known{-ln2, -0.5}};
  static constexpr bool wide = true;
  SINTER_HD constexpr std::array<double, 1> kinks() const { return {0}; }
  SINTER_HD constexpr bool valid() const { return alpha >= 0 && finite(alpha); }
  template <class V>
  SINTER_HD V forward(V x) const {
    return select(x > splat<V>(0), x, splat<V>(alpha) * expm1_of_negative(x));
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    const V left = select(y <= stored(splat<V>(-alpha)), splat<V>(0), y + splat<V>(alpha));
    return select(y > splat<V>(0), splat<V>(1), left);
  }
};

// Barron, "Continuously Differentiable Exponential Linear Units", 2017.
struct CELU {
  double alpha = 1;
  static constexpr Text name = "celu", formula = "x if x > 0 else alpha * (exp(x / alpha) - 1)",
                        requirement = "alpha > 0";
  static constexpr std::tuple fields{Field{"alpha", &CELU::alpha}};
  static constexpr std::array known{Known{2, 2}, Known{-ln2, -0.5}};
  static constexpr bool wide = true;
  SINTER_HD constexpr std::array<double, 0> kinks() const { return {}; }
  SINTER_HD constexpr bool valid() const { return alpha > 0 && finite(alpha); }
  template <class V>
  SINTER_HD V forward(V x) const {
    const V scale = splat<V>(alpha);
    return select(x > splat<V>(0), x, scale * expm1_of_negative(x / scale));
  }
  template <class V, class Stored = AsStored>
  SINTER_HD V derivative_from_output(V y, Stored stored = {}) const {
    const V scale = splat<V>(alpha);
    const V left = select(y <= stored(-scale), splat<V>(0), (y + scale) / scale);
    return select(y > splat<V>(0), splat<V>(1), left);
  }
};

struct Hardshrink {
  double lambd = 0.5;
  static constexpr Text name = "hardshrink", formula = "x if |x| > lambd else 0",
                        requirement = "lambd >= 0";
  static constexpr std::tuple fields{Field{"lambd", &Hardshrink::lambd}};
  static constexpr std::array known{Known{0.5, 0}, Known{2, 2}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 2> kinks() const { return {-lambd, lambd}; }
  SINTER_HD constexpr bool valid() const { return lambd >= 0 && finite(lambd); }
  template <class V>
  SINTER_HD V forward(V x) const {
    return select(abs(x) <= splat<V>(lambd), splat<V>(0), x);
  }
  template <class V>
  SINTER_HD V derivative_from_output(V y) const {
    return select(y == splat<V>(0), splat<V>(0), unless_nan(y, splat<V>(1)));
  }
};

struct Softshrink {
  double lambd = 0.5;
  static constexpr Text name = "softshrink", formula = "x - sign(x) * lambd if |x| > lambd else 0",
                        requirement = "lambd >= 0";
  static constexpr std::tuple fields{Field{"lambd", &Softshrink::lambd}};
  static constexpr std::array known{Known{2, 1.5}, Known{-2, -1.5}};
  static constexpr bool wide = false;
  SINTER_HD constexpr std::array<double, 2> kinks() const { return {-lambd, lambd}; }
  SINTER_HD constexpr bool valid() const { return lambd >= 0 && finite(lambd); }
  template <class V>
  SINTER_HD V forward(V x) const {
    return select(abs(x) <= splat<V>(lambd), splat<V>(0), x - copysign(splat<V>(lambd), x));
  }
  template <class V>
  SINTER_HD V derivative_from_output(V y) const {
    return select(y == splat<V>(0), splat<V>(0), unless_nan(y, splat<V>(1)));
  }
};

// X(Type, function): the type, and its name as an identifier for whoever generates functions.
// clang-format off
#define SINTER_ACTIVATIONS(X)                                                                     \
  X(Sigmoid, sigmoid) X(LogSigmoid, logsigmoid) X(Tanh, tanh) X(ReLU, relu) X(GELU, gelu)         \
  X(GELUTanh, gelu_tanh) X(SiLU, silu) X(ReLU6, relu6) X(Hardsigmoid, hardsigmoid)                \
  X(Hardtanh, hardtanh) X(Hardswish, hardswish) X(SELU, selu) X(Mish, mish) X(Softplus, softplus) \
  X(Softsign, softsign) X(Tanhshrink, tanhshrink) X(LeakyReLU, leaky_relu) X(ELU, elu)            \
  X(CELU, celu) X(Hardshrink, hardshrink) X(Softshrink, softshrink)
// clang-format on

}  // namespace sinter::math

#include <sinter/kernels/math/activation_list.h>
