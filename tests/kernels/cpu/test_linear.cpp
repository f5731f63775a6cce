// linear_forward: product, bias, activation and dropout in one call. Integers as elements keep the
// product exact, as in test_matmul.cpp.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "activation_cases.h"

namespace sinter {
namespace {

constexpr std::int64_t sizes[] = {0, 1, 2, 31, 33, 127, 129, 257};

// x w^T + bias.
template <class T>
std::vector<Real> reference(const Tensor& x, const Tensor& w, const Tensor& bias) {
  const std::int64_t rows = x.shape().rows();
  const std::int64_t in = w.size(1);
  const std::int64_t columns = w.size(0);
  std::vector<Real> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = bias.defined() ? static_cast<double>(bias.data<T>()[j]) : 0;
      for (std::int64_t l = 0; l < in; ++l) {
        sum += static_cast<double>(x.data<T>()[i * in + l]) *
               static_cast<double>(w.data<T>()[j * in + l]);
      }
      out.push_back(static_cast<Real>(sum));
    }
  }
  return out;
}

TEST_CASE_TEMPLATE("with and without bias, z and activation, for odd sizes", T, float, double) {
  Numbers numbers(4);
  std::string wrong;
  for (const std::int64_t rows : sizes) {
    for (const std::int64_t columns : sizes) {
      for (const std::int64_t in : {std::int64_t{0}, std::int64_t{1}, std::int64_t{33}}) {
        const Tensor x = random_integers<T>({rows, in}, numbers, -4, 4);
        const Tensor w = random_integers<T>({columns, in}, numbers, -4, 4);
        const Tensor some = random_integers<T>({columns}, numbers, -9, 9);
        for (int which = 0; which < 8 && wrong.empty(); ++which) {
          const Tensor bias = which & 1 ? some : Tensor{};
          Tensor z = which & 2 ? Tensor::full({rows, columns}, -77, dtype_of<T>) : Tensor{};
          Tensor y = Tensor::full({rows, columns}, -77, dtype_of<T>);
          ops::ActivationArgs args;
          if (which & 4) {
            args.act = math::ReLU{};
          }
          ops::linear_forward(x, w, bias, z, y, args);
          std::vector<Real> wanted = reference<T>(x, w, bias);
          if (z.defined()) {
            wrong += apart_by_ulps<T>(z, wanted, 0);
          }
          if (which & 4) {
            for (Real& value : wanted) {
              value = value > 0 ? value : 0;
            }
          }
          wrong += apart_by_ulps<T>(y, wanted, 0);
          wrong += wrong.empty() ? "" : text(" (", rows, "x", in, "x", columns, ", ", which, ")");
        }
      }
    }
  }
  CHECK(wrong == "");
}

TEST_CASE_TEMPLATE("every activation and dropout after a product", T, float, double) {
  Numbers numbers(9);
  const Tensor x = random_integers<T>({23, 5}, numbers, -2, 2);
  Tensor w = random_integers<T>({19, 5}, numbers, -2, 2);
  ops::affine(w, w, 0.25, 0);  // quarters are exact, too
  const Tensor bias = random_integers<T>({19}, numbers, -1, 1);
  const std::vector<Real> before = reference<T>(x, w, bias);
  for_each_activation_case([&]<class A>(const A& a) {
    INFO(A::name);
    const ops::ActivationArgs args{.act = a, .dropout = {math::dropout_mask(0.2, 8, 1, 1), 77}};
    std::vector<Real> wanted;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Real y = math::reference(computed_in<T>(a), before[i]).y;
      wanted.push_back(args.dropout.mask.keep(77 + i) ? y * scale_of(args.dropout.mask) : 0);
    }
    Tensor z = Tensor::zeros({23, 19}, dtype_of<T>);
    Tensor y = Tensor::zeros({23, 19}, dtype_of<T>);
    ops::linear_forward(x, w, bias, z, y, args);
    CHECK(apart<T>(y, wanted, [&](std::size_t i) {
            const bool wide = std::is_same_v<T, double>;
            return (wide ? 6 + 2 * before[i] * before[i] : 3) * ulp<T>(wanted[i]);
          }) == "");
    CHECK(apart_by_ulps<T>(z, before, 0) == "");
    // The same without z, bit for bit.
    Tensor none;
    Tensor alone = Tensor::zeros({23, 19}, dtype_of<T>);
    ops::linear_forward(x, w, bias, none, alone, args);
    CHECK(different(alone, y) == "");
  });
}

TEST_CASE_TEMPLATE("cut into pieces by rows and by columns it is the same", T, float, double) {
  const KeepThreads keep;
  Numbers numbers(12);
  for (const auto& [rows, columns] : {std::pair{601, 257}, std::pair{257, 601}}) {
    const Tensor x = random_integers<T>({rows, 65}, numbers, -4, 4);
    const Tensor w = random_integers<T>({columns, 65}, numbers, -4, 4);
    const Tensor bias = random_integers<T>({columns}, numbers, -9, 9);
    const std::vector<Real> wanted = reference<T>(x, w, bias);
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      Tensor z = Tensor::zeros({rows, columns}, dtype_of<T>);
      Tensor y = Tensor::zeros({rows, columns}, dtype_of<T>);
      ops::linear_forward(x, w, bias, z, y,
                          {.act = math::LeakyReLU{.negative_slope = 0.5}, .dropout = {}});
      std::vector<Real> bent = wanted;
      for (Real& value : bent) {
        value = value > 0 ? value : value / 2;
      }
      CHECK(apart_by_ulps<T>(z, wanted, 0) == "");
      CHECK(apart_by_ulps<T>(y, bent, 0) == "");
    }
  }
}

TEST_CASE_TEMPLATE("leading dimensions are rows", T, float, double) {
  Numbers numbers(13);
  const Tensor x = random_integers<T>({4, 3, 7}, numbers, -4, 4);
  const Tensor w = random_integers<T>({5, 7}, numbers, -4, 4);
  Tensor none;
  Tensor y = Tensor::zeros({4, 3, 5}, dtype_of<T>);
  ops::linear_forward(x, w, none, none, y, {});
  CHECK(apart_by_ulps<T>(y, reference<T>(x, w, none), 0) == "");
}

TEST_CASE("16-bit inputs are summed in float32 and rounded once") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = Tensor::full({2, 4096}, 1, dtype);
    const Tensor w = Tensor::full({3, 4096}, 1, dtype);
    const Tensor bias = Tensor::full({3}, 0.5, dtype);
    Tensor none;
    Tensor y = Tensor::zeros({2, 3}, dtype);
    // In 16 bits the sum would stop growing at 2048 or 256.
    ops::linear_forward(x, w, bias, none, y, {});
    CHECK(y.view_rows(1, 2).reshape({3}).view_rows(2, 3).item() == 4096);
  }
}

}  // namespace
}  // namespace sinter
