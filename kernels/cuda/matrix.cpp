// Matrix products, and Linear forward and backward: as one kernel where it is small, else as a
// product and one pass after it.
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

}  // namespace

void matmul(In a, In b, InOut c, const ops::MatmulArgs& args) {
  with_storage("matmul", c->dtype(), [&]<class T>(T) {
    gemm(c->device().index, c->dtype(), args.transpose_a, args.transpose_b, c->size(0), c->size(1),
         a->size(args.transpose_a ? 0 : 1), a->raw<T>(), b->raw<T>(), args.accumulate, c->raw<T>());
  });
}

void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args) {
  if (is_for_tiles(*x, *weight)) {
    return tile::linear_forward(x, weight, bias, z, y, args);
  }
  with_storage("linear", x->dtype(), [&]<class T>(T) {
    const int device = x->device().index;
    const std::int64_t columns = weight->size(0);
    const T* shift = bias->defined() ? bias->raw<T>() : nullptr;
    const auto product = [&](T* to) {
      gemm(device, x->dtype(), false, true, x->shape().rows(), columns, weight->size(1),
           x->raw<T>(), weight->raw<T>(), false, to);
    };
    if (args.dropout.mask.drops_everything()) {
      y->fill(0);
      if (z->defined()) {
        product(z->raw<T>());
        bias_activation<T>(device, {}, z->raw<T>(), shift, columns, nullptr, z->raw<T>(),
                           z->numel());
      }
      return;
    }
    T* kept = z->defined() ? z->raw<T>() : nullptr;
    T* before = kept != nullptr ? kept : y->raw<T>();
    product(before);
    if (args.act || shift != nullptr || kept != nullptr || !args.dropout.mask.is_identity()) {
      bias_activation(device, args, before, shift, columns, kept, y->raw<T>(), y->numel());
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
      matmul(dy[i], x[i], dw[i], {.transpose_a = true, .accumulate = flags[i].accumulate_weight});
    }
    if (db[i].defined()) {
      sum_to(dy[i], db[i], flags[i].accumulate_bias);
    }
    ++i;
  }
}

}  // namespace sinter::cuda
