#include "arena.h"

#include "../timing.h"

namespace bench {

using sinter::Tensor;

namespace {

/// Drawing 2^27 normal numbers on one processor would take longer than the benchmark; a block of
/// them is repeated, and `first` makes one tensor differ from another.
void fill_normal(Tensor& tensor, const Tensor& drawn, std::int64_t block, std::int64_t first) {
  const Tensor source = drawn.slice(first, {block});
  for (std::int64_t at = 0; at < tensor.numel(); at += block) {
    tensor.slice(at, {block}).copy_from(source);
  }
}

}  // namespace

Arena::Arena(sinter::Device device, sinter::DType dtype) : device_(device), dtype_(dtype) {
  for (Tensor* tensor : {&x_, &y_, &dy_, &dx_}) {
    *tensor = Tensor::empty({whole}, dtype, device);
  }
  constexpr std::int64_t block = std::int64_t{1} << 22;
  constexpr std::int64_t offset = 123456;
  const Tensor drawn = normal({block + offset}, 1).to(dtype).to(device);
  fill_normal(x_, drawn, block, 0);
  fill_normal(dy_, drawn, block, offset);
  fill_normal(y_, drawn, block, 0);
  fill_normal(dx_, drawn, block, 0);
}

Arena::Slices Arena::slices(std::int64_t n) const {
  Slices found;
  for (std::int64_t i = 0; i < slices_of(n); ++i) {
    found.x.push_back(x_.slice(i * n, {n}));
    found.y.push_back(y_.slice(i * n, {n}));
    found.dy.push_back(dy_.slice(i * n, {n}));
    found.dx.push_back(dx_.slice(i * n, {n}));
  }
  return found;
}

}  // namespace bench
