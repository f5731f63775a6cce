#include <algorithm>

#include <sinter/kernels/cuda/tile/head.h>
#include <sinter/kernels/cuda/tile/launch.h>
#include <sinter/kernels/cuda/tile/limits.h>
#include <sinter/kernels/cuda/tile/tile.h>
#include <sinter/kernels/precision.h>

namespace sinter::cuda::tile {

bool takes(const Tensor& tensor, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const double products =
      static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  return tensor.dtype() == DType::float32 && products > 0 && products <= most_multiply_adds &&
         std::max({rows, in, out}) <= longest_side && matmul_precision() == MatmulPrecision::high &&
         has_tensor_cores(tensor.device().index);
}

bool takes_head(const Tensor& x, const Tensor& weight) {
  const std::int64_t rows = x.shape().rows();
  return weight.size(0) <= most_classes && rows <= most_head_rows &&
         takes(x, rows, weight.size(1), weight.size(0));
}

}  // namespace sinter::cuda::tile
