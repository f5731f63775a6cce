// The setting that says how exactly float32 matrices are multiplied.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "cpu/compare.h"
#include <sinter/kernels/ops.h>
#include <sinter/kernels/precision.h>

namespace sinter {
namespace {

Tensor product(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::zeros({a.size(0), b.size(1)}, a.dtype(), a.device());
  ops::matmul(a, b, c, {});
  return c.to(Device::cpu());
}

TEST_CASE("float32 products may use TF32 unless they are told otherwise") {
  const KeepPrecision keep;
  CHECK(matmul_precision() == MatmulPrecision::high);
  set_matmul_precision(MatmulPrecision::highest);
  CHECK(matmul_precision() == MatmulPrecision::highest);
  set_matmul_precision(MatmulPrecision::high);
  CHECK(matmul_precision() == MatmulPrecision::high);
}

TEST_CASE("on the CPU products are the same either way") {
  const KeepPrecision keep;
  Numbers numbers(1);
  const Tensor a = random_tensor<float>({33, 40}, numbers, -1, 1);
  const Tensor b = random_tensor<float>({40, 17}, numbers, -1, 1);
  set_matmul_precision(MatmulPrecision::highest);
  const Tensor c = product(a, b);
  set_matmul_precision(MatmulPrecision::high);
  CHECK(different(product(a, b), c) == "");
}

TEST_CASE("CUDA: highest keeps every bit of the factors, high at least those of TF32") {
  if (!has_gpu()) {
    return;
  }
  const KeepPrecision keep;
  Numbers numbers(1);
  const Tensor a = random_tensor<float>({64, 256}, numbers, -1, 1);
  const Tensor b = random_tensor<float>({256, 32}, numbers, -1, 1);
  const std::vector<Real> wanted = reals(product(a.to(DType::float64), b.to(DType::float64)));
  // Of 256 terms: roundings of sums of a size about 10, and factors rounded to 2^-11.
  for (const auto& [precision, allowed] :
       {std::pair{MatmulPrecision::highest, 6e-5}, std::pair{MatmulPrecision::high, 3e-2}}) {
    set_matmul_precision(precision);
    const Tensor c = product(a.to(Device::cuda()), b.to(Device::cuda()));
    CHECK(apart<float>(c, wanted, [&, most = allowed](std::size_t) { return most; }) == "");
  }
}

}  // namespace
}  // namespace sinter
