// The copies of the kernels for each instruction set against the plainest one: the same masks bit
// for bit, and values within the few units in the last place that fused multiply-adds make.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../../runtime/child.h"
#include "activation_cases.h"
#include "copies.h"
#include <sinter/runtime/cpu_path.h>

namespace sinter::cpu {
namespace {

template <class T>
std::vector<T> random(std::size_t n, std::uint64_t seed, double low, double high) {
  Numbers numbers(seed);
  std::vector<T> out(n);
  for (T& value : out) {
    value = static_cast<T>(numbers.real(low, high));
  }
  return out;
}

// Empty if the values are `ulps` or `absolute` apart at most, and exactly 0 at the same places.
template <class T>
std::string apart(const std::vector<T>& a, const std::vector<T>& b, double ulps,
                  double absolute = 0) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Real x = a[i];
    const Real y = b[i];
    const bool same_kind = std::isnan(x) == std::isnan(y) && (x == 0) == (y == 0);
    const bool near =
        std::isnan(x) || x == y || std::abs(x - y) <= Real(ulps) * ulp<T>(y) + Real(absolute);
    if (!same_kind || !near) {
      return text("element ", i, " of ", a.size(), ": ", x, " and ", y, ", ",
                  std::abs(x - y) / ulp<T>(y), " ulp");
    }
  }
  return {};
}

// Runs `kernel(table)` in every copy and compares with the first.
template <class T, class Kernel>
void compare(Kernel kernel, double ulps, double absolute = 0) {
  const auto all = copies<T>();
  const std::vector<T> wanted = kernel(*all[0].table);
  for (std::size_t i = 1; i < all.size(); ++i) {
    INFO("on ", std::string(all[i].name));
    CHECK(apart(kernel(*all[i].table), wanted, ulps, absolute) == "");
  }
}

TEST_CASE("the table in use is that of the chosen path") {
  for (const auto& copy : copies<float>()) {
    CHECK((&kernels<float>() == copy.table) == (cpu_path() == copy.path));
  }
  for (const auto& copy : copies<double>()) {
    CHECK((&kernels<double>() == copy.table) == (cpu_path() == copy.path));
  }
}

TEST_CASE("SINTER_CPU picks the table, for every path that runs here") {
  for (const auto& copy : copies<float>()) {
    const std::string name(copy.name);
    const ChildOutput out =
        run_child("SINTER_CPU=" + name, "the table in use is that of the chosen path");
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.says("CPU path: " + name + ","));
  }
}

// Lengths of every vector's head and tail, and those around the blocks that keep flags are drawn
// in.
std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> out{511, 512, 513, 1023, 1024, 1025, 2048, 5000};
  for (std::int64_t n = 0; n <= 67; ++n) {
    out.push_back(n);
  }
  return out;
}

template <class T>
void check_activation(std::size_t row, const void* act, std::string_view name, bool from_input) {
  INFO(name);
  // float32 results are those of float64 arithmetic rounded, of two or three roundings, or of a
  // function that is off by up to 1.5 units on either side. float64 ones differ by what fused
  // multiply-adds do to the argument of an exponential: gelu_tanh's reaches 66 here, and so many
  // epsilons are up to twice as many units.
  const double ulps = std::is_same_v<T, float> ? 2 : 132;
  // Slopes have zeros where terms of size 1 cancel.
  const double cancelled = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    for (const double p : {0.0, 0.3, 1.0}) {
      const math::DropoutMask mask = math::dropout_mask(p, 7, 1, 2, scheme);
      for (const std::int64_t n : lengths()) {
        // One past the start: no vector is aligned.
        const auto x = random<T>(static_cast<std::size_t>(n) + 1, 5, -9, 9);
        const auto dy = random<T>(static_cast<std::size_t>(n) + 1, 6, 0.5, 1);
        const std::uint64_t first = (std::uint64_t{1} << 32) - 30;
        std::vector<T> kept = x;
        compare<T>(
            [&](const Kernels<T>& table) {
              std::vector<T> y(x.size() + 1, T(-77));
              table.activations[row].forward(act, mask, first, x.data() + 1, y.data() + 1, n);
              kept = from_input ? x : y;
              return y;
            },
            ulps);
        compare<T>(
            [&](const Kernels<T>& table) {
              std::vector<T> dx(x.size() + 1, T(-77));
              table.activations[row].backward(act, mask, first, Stored::as_computed,
                                              kept.data() + 1, dy.data() + 1, dx.data() + 1, n);
              return dx;
            },
            ulps, cancelled);
      }
    }
  }
}

TEST_CASE_TEMPLATE("activations: equal masks, values within 2 ulp of float32", T, float, double) {
  std::size_t row = 0;
  math::for_each_activation([&]<class A>() {
    const A a{};
    check_activation<T>(row++, &a, A::name, math::derives_from_input<A>);
  });
  check_activation<T>(row, nullptr, "identity", false);
}

TEST_CASE("masks of every copy are DropoutMask::keep, bit for bit") {
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5},
                                      (std::uint64_t{1} << 32) - 700, ~std::uint64_t{0} / 2}) {
      const math::DropoutMask mask = math::dropout_mask(0.4, 0xfedcba9876543210, 9, 8, scheme);
      for (const std::int64_t n : lengths()) {
        std::vector<float> wanted;
        for (std::int64_t i = 0; i < n; ++i) {
          wanted.push_back(mask.keep(first + static_cast<std::uint64_t>(i)) ? 1 : 0);
        }
        for (const auto& copy : copies<float>()) {
          std::vector<float> y(static_cast<std::size_t>(n), 1.0f);
          copy.table->activations[math::activation_count].forward(nullptr, mask, first, y.data(),
                                                                  y.data(), n);
          for (float& value : y) {
            value = value != 0 ? 1.0f : 0.0f;
          }
          CAPTURE(n);
          CHECK_MESSAGE(y == wanted, std::string(copy.name));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("bounds kept in 16 bits are found by every copy", T, float, double) {
  // relu6 at its bound: what comes back from storage is the bound's own image.
  std::size_t row = 0;
  std::size_t relu6 = 0;
  math::for_each_activation([&]<class A>() {
    relu6 = A::name == math::ReLU6::name ? row : relu6;
    ++row;
  });
  const math::ReLU6 act;
  for (const Stored stored : {Stored::as_computed, Stored::as_float16, Stored::as_bfloat16}) {
    for (double p = 0; p < 0.95; p += 0.01) {
      const math::DropoutMask mask = math::dropout_mask(p, 1, 0, 0);
      for (const auto& copy : copies<T>()) {
        std::vector<T> y(33, T(100));
        copy.table->activations[relu6].forward(&act, mask, 0, y.data(), y.data(), 33);
        for (T& value : y) {
          value = stored == Stored::as_float16
                      ? T(static_cast<float>(float16(static_cast<float>(value))))
                  : stored == Stored::as_bfloat16
                      ? T(static_cast<float>(bfloat16(static_cast<float>(value))))
                      : value;
        }
        std::vector<T> dx(33, static_cast<T>(infinity));
        copy.table->activations[relu6].backward(&act, mask, 0, stored, y.data(), dx.data(),
                                                dx.data(), 33);
        CAPTURE(p);
        CHECK_MESSAGE(dx == std::vector<T>(33, T(0)), std::string(copy.name));
      }
    }
  }
}

TEST_CASE_TEMPLATE("matrix products agree to the rounding of their sums", T, float, double) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 1, 1}, std::tuple{1, 33, 17}, std::tuple{31, 1, 257}, std::tuple{33, 47, 129},
        std::tuple{100, 101, 300}, std::tuple{5, 7, 0}}) {
    // Rows stored further apart than they are long, as a piece of a larger matrix has them.
    const std::int64_t ld = 310;
    const auto a = random<T>(static_cast<std::size_t>(ld * ld), 1, -1, 1);
    const auto b = random<T>(static_cast<std::size_t>(ld * ld), 2, -1, 1);
    for (int which = 0; which < 8; ++which) {
      compare<T>(
          [&, m = m, n = n, k = k](const Kernels<T>& table) {
            std::vector<T> c(static_cast<std::size_t>(m * ld), T(1));
            table.gemm(which & 1, which & 2, m, n, k, a.data(), ld, b.data(), ld, which & 4,
                       c.data(), ld);
            return c;
          },
          0, (k + 2) * static_cast<double>(std::numeric_limits<T>::epsilon()));
    }
  }
}

TEST_CASE_TEMPLATE("the other passes agree", T, float, double) {
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const std::int64_t n : lengths()) {
    const auto size = static_cast<std::size_t>(n);
    const auto x = random<T>(size * 70, 3, -2, 2);
    const auto bias = random<T>(size, 4, -2, 2);
    CAPTURE(n);
    compare<T>(
        [&](const Kernels<T>& table) {
          std::vector<T> y(x.begin(), x.begin() + n);
          table.add_bias(bias.data(), y.data(), n);
          return y;
        },
        0);
    compare<T>(
        [&](const Kernels<T>& table) {
          std::vector<T> y(bias);
          table.add_rows(x.data(), 70, n, n, y.data());
          return y;
        },
        0);  // columns are added in the same order whatever the width
    const std::vector<std::uint8_t> bytes(size, 201);
    compare<T>(
        [&](const Kernels<T>& table) {
          std::vector<T> y(size);
          table.normalise(bytes.data(), 255 * 0.1307, 1 / (255 * 0.3081), y.data(), n);
          return y;
        },
        1);
    if (n > 0) {
      compare<T>(
          [&](const Kernels<T>& table) {
            std::vector<T> grad(size);
            std::vector<double> room(size);
            const double loss = table.cross_entropy_row({bias.data(), 0.1, n}, x.data(), n / 2, 0.5,
                                                        grad.data(), room.data());
            grad.push_back(static_cast<T>(loss));
            return grad;
          },
          2, 100 * std::numeric_limits<double>::epsilon());
    }
    const auto step = [&](const Kernels<T>& table, auto update) {
      std::vector<T> state;
      for (const std::uint64_t seed : {10, 11, 12, 13}) {
        const auto part = random<T>(size, seed, 0, 1);
        state.insert(state.end(), part.begin(), part.end());
      }
      update(table, state.data(), state.data() + n, state.data() + 2 * n, state.data() + 3 * n);
      return state;
    };
    compare<T>(
        [&](const Kernels<T>& table) {
          return step(table, [n](const auto& t, T* p, T* g, T* m, T*) {
            t.sgd(math::sgd_constants<double>(
                      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, false),
                  p, g, m, n);
            t.sgd(math::sgd_constants<double>({.lr = 0.1}, false), p, g, nullptr, n);
          });
        },
        2, 4 * epsilon);
    compare<T>(
        [&](const Kernels<T>& table) {
          return step(table, [n](const auto& t, T* p, T* g, T* m, T* v) {
            t.adam(math::adam_constants<double>({.lr = 0.1, .weight_decay = 0.01}, 0.1, 0.01), p, g,
                   m, v, n);
          });
        },
        2, 8 * epsilon);
  }
}

}  // namespace
}  // namespace sinter::cpu
