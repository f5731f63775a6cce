// Matrix products, and Linear forward and backward: as one kernel where it is small, else as a
// product, with the bias, and at most one pass after it.
#include <sinter/kernels/cuda/gemm.h>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/tile/tile.h>
#include <sinter/kernels/cuda/types.h>

namespace sinter::cuda {
namespace {

/// `rows`: x or dy.
bool is_for_tiles(const Tensor& rows, const Tensor& weight) {
  return tile::takes(rows, rows.shape().rows(), weight.size(1), weight.size(0));
}

Tensor rows_of(const Tensor& x) { return x.reshape({x.shape().rows(), x.shape().last()}); }

Product product(const Tensor& a, const Tensor& b, const Tensor& c, const ops::MatmulArgs& args) {
  return {.device = c.device().index,
          .dtype = a.dtype(),
          .result = c.dtype(),
          .transpose_a = args.transpose_a,
          .transpose_b = args.transpose_b,
          .m = c.size(0),
          .n = c.size(1),
          .k = a.size(args.transpose_a ? 0 : 1),
          .a = a.address(),
          .b = b.address(),
          .accumulate = args.accumulate,
          .c = c.address()};
}

}  // namespace

void matmul(In a, In b, InOut c, const ops::MatmulArgs& args) {
  if (c->dtype() == a->dtype() || c->dtype() == DType::float32) {
    return gemm(product(*a, *b, *c, args));
  }
  // float16 of bfloat16 or the other way round, for which there is no product.
  Tensor sum = Tensor::empty(c->shape(), DType::float32, c->device());
  if (args.accumulate) {
    cast(*c, sum);
  }
  gemm(product(*a, *b, sum, args));
  cast(sum, *c);
}

void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args) {
  if (is_for_tiles(*x, *weight)) {
    return tile::linear_forward(x, weight, bias, z, y, args);
  }
  with_storage("linear", y->dtype(), [&]<class T>(T) {
    const bool drops_all = args.dropout.mask.drops_everything();
    if (drops_all) {
      y->fill(0);
      if (!z->defined()) {
        return;
      }
    }
    Tensor& sum = z->defined() ? *z : *y;
    const Product into_sum = product(rows_of(*x), *weight, rows_of(sum), {.transpose_b = true});
    if (!bias->defined() || !gemm_with_bias(into_sum, bias->address())) {
      gemm(into_sum);
      if (bias->defined()) {
        add(sum, bias, sum);
      }
    }
    if (!drops_all && (args.act || z->defined() || !args.dropout.mask.is_identity())) {
      activation_forward(x->device().index, args, sum.raw<T>(), y->raw<T>(), y->numel());
    }
  });
}

void linear_backward_input(In dy, In weight, In kept, Out dx, const ops::ActivationArgs& args) {
  if (is_for_tiles(*dy, *weight)) {
    return tile::linear_backward_input(dy, weight, kept, dx, args);
  }
  matmul(dy, weight, *dx, {});
  if (kept->defined()) {
    activation_backward(kept, *dx, dx, args);
  }
}

bool backward_is_grouped(const Tensor& x, const Tensor& weight) { return is_for_tiles(x, weight); }

void weight_gradients(Ins dy, Ins x, InOuts dw, InOuts db,
                      const std::vector<ops::WeightGradientFlags>& flags) {
  const auto chosen = [&](std::size_t i) {
    return tile::takes(dy[i], dy[i].shape().rows(), x[i].shape().last(), dy[i].shape().last());
  };
  // In their order, for two of them may add to one gradient.
  for (std::size_t i = 0; i < dy.size();) {
    std::size_t end = i;
    while (end < dy.size() && chosen(end)) {
      ++end;
    }
    if (end > i) {
      tile::weight_gradients(dy, x, dw, db, flags, i, end);
      i = end;
      continue;
    }
    if (dw[i].defined()) {
      gemm(product(rows_of(dy[i]), rows_of(x[i]), dw[i],
                   {.transpose_a = true, .accumulate = flags[i].accumulate_weight}));
    }
    if (db[i].defined()) {
      sum_to(dy[i], db[i], flags[i].accumulate_bias);
    }
    ++i;
  }
}

}  // namespace sinter::cuda
