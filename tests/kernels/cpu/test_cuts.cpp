// Matrix products are cut into as many pieces as there are threads, and every element is the same
// to the last bit for any number of them: its sum's order does not depend on where the cuts are.

#include <cstdint>
#include <tuple>
#include <type_traits>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

template <class T>
void check_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const KeepThreads keep;
  Numbers numbers(static_cast<std::uint64_t>(m + 1000 * n + 1000000 * k));
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      CAPTURE(transpose_a);
      CAPTURE(transpose_b);
      const Tensor a = random_tensor<T>(transpose_a ? Shape{k, m} : Shape{m, k}, numbers, -1, 1);
      const Tensor b = random_tensor<T>(transpose_b ? Shape{n, k} : Shape{k, n}, numbers, -1, 1);
      Tensor whole = Tensor::empty({m, n}, dtype_of<T>);
      set_num_threads(1);
      ops::matmul(a, b, whole, {.transpose_a = transpose_a, .transpose_b = transpose_b});
      Tensor twice = whole.clone();
      const ops::MatmulArgs add{transpose_a, transpose_b, true};
      ops::matmul(a, b, twice, add);
      for (const int threads : {2, 3, 7}) {
        set_num_threads(threads);
        Tensor c = Tensor::empty({m, n}, dtype_of<T>);
        ops::matmul(a, b, c, {.transpose_a = transpose_a, .transpose_b = transpose_b});
        CAPTURE(threads);
        CHECK(different(c, whole) == "");
        ops::matmul(a, b, c, add);
        CHECK(different(c, twice) == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("a product is the same to the last bit for any number of threads", T, float,
                   double) {
  // Square, tall, wide and deep; sizes around multiples of the tiles; k beyond a cache block.
  for (const auto& [m, n, k] :
       {std::tuple{256, 256, 256}, std::tuple{257, 255, 131}, std::tuple{129, 784, 100},
        std::tuple{67, 1031, 97}, std::tuple{1001, 33, 301}, std::tuple{32, 97, 3001},
        std::tuple{35, 193, 1500}, std::tuple{17, 400, 1201}, std::tuple{5, 2001, 801},
        std::tuple{1, 4099, 1999}, std::tuple{4001, 1, 2003}, std::tuple{8, 17, 60001},
        std::tuple{16, 960, 512}, std::tuple{3001, 1501, 1}, std::tuple{2003, 1009, 3},
        std::tuple{640, 640, 47}, std::tuple{231, 1, 22000}, std::tuple{8, 1000, 1100}}) {
    // float64 needs fewer elements to be cut as often: its tiles are half as wide.
    if (std::is_same_v<T, float> || m * n * k < 20'000'000) {
      check_product<T>(m, n, k);
    }
  }
}

TEST_CASE("so is a linear layer with its bias, activation and dropout") {
  const KeepThreads keep;
  Numbers numbers(3);
  const Tensor x = random_tensor<float>({67, 300}, numbers, -1, 1);
  const Tensor bias = random_tensor<float>({1031}, numbers, -1, 1);
  const Tensor weight = random_tensor<float>({1031, 300}, numbers, -1, 1);
  const ops::ActivationArgs args{.act = math::GELU{},
                                 .dropout = {math::dropout_mask(0.3, 1, 2, 3), 5}};
  Tensor first_z, first_y;
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    Tensor z = Tensor::empty({67, 1031});
    Tensor y = Tensor::empty({67, 1031});
    ops::linear_forward(x, weight, bias, z, y, args);
    first_z = threads == 1 ? z : first_z;
    first_y = threads == 1 ? y : first_y;
    CHECK(different(z, first_z) == "");
    CHECK(different(y, first_y) == "");
  }
}

}  // namespace
}  // namespace sinter
